#!/bin/sh
# Installs what a fresh Debian machine lacks: a C compiler for cgo and a Vulkan
# driver; where BATCHGEMM_REQUIRE or the arguments have "clang" also what its tests compile and disassemble with, and find libraries by, with "arm64"
# what runs those of arm64, with "chromium" the browser that runs those of WebGPU in one, and with "window" what
# builds the example with a window, and a screen that nobody sees, and with "python" what builds and tests the wheel. Without the right to install, says so and leaves
# the machine as it is: batchgemm then runs on the CPU.
set -eu

for_tests=",${BATCHGEMM_REQUIRE:-},$(echo "$*" | tr ' ' ','),"
want=""
command -v gcc >/dev/null 2>&1 || want="$want gcc libc6-dev"
if [ "$(uname -s)" = Linux ]; then
	[ -n "$(find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name '*.json' 2>/dev/null)" ] || want="$want mesa-vulkan-drivers"
	ls /usr/lib/*/libvulkan.so.1 /usr/lib*/libvulkan.so.1 2>/dev/null | grep -q . || want="$want libvulkan1"
fi
case "$for_tests" in
*,clang,*)
	command -v g++ >/dev/null 2>&1 || want="$want g++"
	command -v clang++-19 >/dev/null 2>&1 || want="$want clang-19"
	ls /usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.asan-*.a >/dev/null 2>&1 || want="$want libclang-rt-19-dev"
	command -v ld.lld-19 >/dev/null 2>&1 || want="$want lld-19"
	command -v llvm-objdump-19 >/dev/null 2>&1 || want="$want llvm-19"
	command -v pkg-config >/dev/null 2>&1 || want="$want pkg-config"
	command -v cmake >/dev/null 2>&1 || want="$want cmake"
	;;
esac
case "$for_tests" in
*,arm64,*) command -v qemu-aarch64-static >/dev/null 2>&1 || want="$want qemu-user-static" ;;
esac
case "$for_tests" in
*,chromium,*) command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || want="$want chromium" ;;
esac
case "$for_tests" in
*,window,*)
	command -v Xvfb >/dev/null 2>&1 || want="$want xvfb" # and Mesa's software OpenGL with it
	for header in Xcursor/Xcursor.h:libxcursor-dev extensions/XInput2.h:libxi-dev extensions/Xinerama.h:libxinerama-dev \
		extensions/Xrandr.h:libxrandr-dev extensions/xf86vmode.h:libxxf86vm-dev; do
		[ -e "/usr/include/X11/${header%:*}" ] || want="$want ${header#*:}"
	done
	;;
esac
case "$for_tests" in
*,python,*)
	command -v objdump >/dev/null 2>&1 || want="$want binutils"
	[ -e "$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || want="$want libpython3-dev"
	for module in venv:ensurepip build setuptools wheel numpy pytest; do
		/usr/bin/python3 -c "import ${module#*:}" 2>/dev/null || want="$want python3-${module%:*}"
	done
	;;
esac
[ -n "$want" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "setup: missing$want, and there is no apt-get; without them batchgemm uses the CPU" >&2
	exit 0
fi
root=""
if [ "$(id -u)" != 0 ]; then
	if sudo -n true 2>/dev/null; then
		root="sudo -n"
	else
		echo "setup: may not install$want (neither root nor sudo without a password); without them batchgemm uses the CPU" >&2
		exit 0
	fi
fi
echo "setup: installing$want"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # words are package names
if ! { $root apt-get update -qq && $root apt-get install -y -qq --no-install-recommends $want; } >/dev/null; then
	echo "setup: could not install$want; without them batchgemm uses the CPU" >&2
fi
