package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/sample"
)

// valuesOf are possible values for a flag of a type, most of them mistakes.
var valuesOf = map[string][]string{
	"string": {"", "x", "int4", "-1", "nan", "auto", "\x00"},
	"stringSlice": {"", "x", "int4", "bias,", ",", "relu,silu", "row-scales,group-64",
		"row-scales,block-scales", "group-128", "zeros", "block-scales"},
	"int": {"", "x", "-1", "0", "1.5", "nan", "99999999999999999999", "9223372036854775807",
		"-9223372036854775808"},
	"float64": {"", "x", "-1", "nan", "inf", "-inf", "1e999", "1e308"},
	"bool":    {"x", "2", "false"},
}

// TestFlagValues: every value of a flag is accepted, or refused as wrong usage in one line, and nothing
// panics.
func TestFlagValues(t *testing.T) {
	sample.Command.Whole(t)
	workloads := map[string][]string{"plan": {"-"}, "run": {"-"}, "verify": {"-", "--backend", "cpu"},
		"bench": {"-"}}
	root, _ := newRoot()
	for _, cmd := range root.Commands() {
		name := cmd.Name()
		if workloads[name] == nil && name != "tune" {
			continue
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains([]string{"help", "svg", "report", "output"}, f.Name) { // files
				return
			}
			values := valuesOf[f.Value.Type()]
			require.NotEmpty(t, values, "%s of type %s", f.Name, f.Value.Type())
			for _, value := range values {
				t.Run(strings.Join([]string{name, f.Name, value}, "/"), func(t *testing.T) {
					if name == "tune" && (value == "false" || value == "0") {
						t.Skip("right, but for a GPU")
					}
					args := append(append([]string{name}, workloads[name]...), "--"+f.Name+"="+value)
					code, _, stderr := batchgemm(t, tiny, args...)
					if code != exitOK {
						require.Equal(t, exitUsage, code, stderr)
						require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
						require.Contains(t, stderr, "batchgemm: ")
					}
				})
			}
		})
	}
}

// TestFlagMistakes: the message for a wrong value names the flag and its values.
func TestFlagMistakes(t *testing.T) {
	const in = "inception-1"
	types := `--type "int4" is not f32, bf16, f16, e4m3, int8 or f64: only B may be, with --type-b int4`
	threshold := []string{"plan", in, "--rule", "zhang2025", "--threshold"}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"run of int4", []string{"run", in, "--type", "int4"}, types},
		{"plan of int4", []string{"plan", in, "--type", "int4"}, types},
		{"bench of int4", []string{"bench", in, "--type", "int4"}, types},
		{"verify of int4", []string{"verify", in, "--type", "int4"}, types},
		{"C of int4", []string{"run", in, "--type", "bf16", "--type-c", "int4"},
			`--type-c "int4" is not bf16 or f32 if A is bf16`},
		{"B of int4 where A is of f32", []string{"run", in, "--type-b", "int4"},
			`--type-b "int4" is not f32 if A is f32`},
		{"B of another type", []string{"run", in, "--type", "bf16", "--type-b", "f16"},
			`--type-b "f16" is not bf16, int4, mxfp4 or nvfp4 if A is bf16`},
		{"B of int4 where A is of int8", []string{"run", in, "--type", "int8", "--type-b", "int4"},
			`--type-b "int4" is not int8 if A is int8`},
		{"groups without int4", []string{"run", in, "--type", "bf16", "--epilogue", "group-64"},
			`--epilogue group-64 is for --type-b int4`},
		{"groups of two sizes", []string{"run", in, "--type", "bf16", "--type-b", "int4", "--epilogue",
			"group-64,group-128"}, `--epilogue has scales of each group-64 and of each group-128`},
		{"groups and rows", []string{"run", in, "--type", "bf16", "--type-b", "int4", "--epilogue",
			"row-scales,group-64"}, `--epilogue has scales of each row and of each group-64`},
		{"rows and groups", []string{"run", in, "--type", "bf16", "--type-b", "int4", "--epilogue",
			"group-64,row-scales"}, `--epilogue has scales of each group-64 and of each row`},
		{"rows of int4", []string{"run", in, "--type", "bf16", "--type-b", "int4", "--epilogue",
			"row-scales"}, `--epilogue has scales of each row, but B of int4 needs those of groups`},
		{"data of int4", []string{"bench", in, "--type", "bf16", "--type-b", "int4", "--data", "mixed"},
			`--data and --epilogue exclude each other`},
		{"infinite threshold", append(threshold, "inf"),
			`--threshold: threshold +Inf is not a finite number from 0 on`},
		{"negative threshold", append(threshold, "-1"),
			`--threshold: threshold -1 is not a finite number from 0 on`},
		{"too large a threshold", append(threshold, "1e999"),
			`invalid argument "1e999" for "--threshold" flag: strconv.ParseFloat: parsing "1e999": value ` +
				`out of range`},
		{"no equation", []string{"plan", in, "--rule", "zhang2025", "--tlp", "0"}, `--tlp 0 is not 3 or 4`},
		{"endless runs", []string{"run", in, "--repeat", "9223372036854775807"},
			`--repeat 9223372036854775807 is not in [1, 1000000]`},
		{"endless benchmark", []string{"bench", in, "--repeat", "9223372036854775807"},
			`--repeat 9223372036854775807 is not in [1, 1000000]`},
		{"endless tuning", []string{"tune", "--repeat", "1000001"},
			`--repeat 1000001 is not in [1, 1000000]`},
		{"no output", []string{"run", in, "-o", ""}, `--output is empty`},
		{"no drawing", []string{"plan", in, "--svg", ""}, `--svg is empty`},
		{"no page", []string{"bench", in, "--report="}, `--report is empty`},
		{"no device", []string{"plan", in, "--device", ""}, `--device is empty`},
		{"no backend", []string{"verify", in, "--backend", ""}, `--backend is empty`},
		{"no backend to tune", []string{"tune", "--backend", ""}, `--backend is empty`},
		{"no data", []string{"bench", in, "--data", ""}, `--data is empty`},
		{"no type", []string{"run", in, "--type", ""}, `--type is empty`},
		{"standard input twice", []string{"bench", "-", "-"}, `only one WORKLOAD can be standard input`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := batchgemm(t, tiny, tc.args...)
			require.Empty(t, stdout)
			require.Equal(t, "batchgemm: "+tc.want+"\n", stderr)
			require.Equal(t, exitUsage, code)
		})
	}
}
