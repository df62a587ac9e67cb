#!/bin/sh
# Opens the pages of internal/report's tests, and any given ones, in headless chromium
# at the widths of a desktop and a phone, light and dark. Fails on console messages
# and when a page is wider than the window. Needs Go, and chromium (Debian: apt-get
# install chromium).
# Usage: scripts/report_check.sh SCREENSHOTS [PAGE...]
set -eu
if [ $# -lt 1 ]; then
	echo "usage: $0 SCREENSHOTS [PAGE...]" >&2
	exit 2
fi
shots=$(mkdir -p "$1" && cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$(dirname "$0")/../internal/report" && go test -count=1 -run '^TestWrite$' . -args -pages "$work/pages")

# look NAME PAGE WIDTH HEIGHT SCHEME: chromium windows are 500 pixels wide at least,
# a frame can be as narrow as a phone.
look() {
	shot=$shots/$1-$3-$5.png
	cat >"$work/frame.html" <<END
<!doctype html><meta name="color-scheme" content="$5"><link rel="icon" href="data:,">
<body style="margin:0"><iframe src="file://$2" style="border:0;display:block;width:$3px;height:$4px"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {
  const page = frame.contentDocument;
  if (!page.querySelector("main")) console.error("no page");
  const wide = page.documentElement.scrollWidth;
  if (wide > $3) console.error("wider than the window: " + wide + " pixels");
  for (const svg of page.querySelectorAll("svg"))
    for (const text of svg.querySelectorAll("text")) {
      const a = svg.getBoundingClientRect(), b = text.getBoundingClientRect();
      if (a.width > 0 && (b.left < a.left - 1 || b.right > a.right + 1)) console.error("text outside its plot: " + text.textContent);
    }
  console.log("looked");
};
</script>
END
	dark=
	[ "$5" = light ] || dark=--blink-settings=preferredColorScheme=0
	rm -f "$shot"
	timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --allow-file-access-from-files \
		--user-data-dir="$work/profile" --enable-logging=stderr $dark --window-size="$3,$4" --screenshot="$shot" "file://$work/frame.html" 2>"$work/log" >/dev/null || {
		cat "$work/log" >&2
		return 1
	}
	grep CONSOLE "$work/log" >"$work/console" || true
	if [ ! -s "$shot" ] || ! grep -q '"looked"' "$work/console" || grep -v '"looked"' "$work/console" >&2; then
		echo "$1, $3 pixels, $5: failed" >&2
		return 1
	fi
	echo "$shot"
}

failed=0
for page in "$work"/pages/*/index.html "$@"; do
	page=$(realpath "$page")
	name=$(basename "$(dirname "$page")")
	for scheme in light dark; do
		look "$name" "$page" 1280 2000 $scheme || failed=1
		look "$name" "$page" 390 3000 $scheme || failed=1
	done
done
exit $failed
