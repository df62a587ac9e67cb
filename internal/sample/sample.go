// Package sample draws which cases of long tests run: tests of all tiles on all architectures, and of mistakes
// that other tests must find. Which they are follows from the cases' names and from the text under test, so that
// every change of it draws others, and a commit runs the same ones everywhere.
package sample

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"testing"
)

// Variable names the environment variable that is "all" where all cases are to run.
const Variable = "BATCHGEMM_TESTS"

// Skip skips the test, a case of many, unless it is drawn: one of n are.
func Skip(t testing.TB, n uint64, seed []byte) {
	t.Helper()
	if !Drawn(t.Name(), n, seed) {
		t.Skipf("not drawn: one of %d cases runs without %s=all", n, Variable)
	}
}

// Drawn reports whether the case of a name is one of those that run: one of n are. seed is the text under
// test, or its hashes.
func Drawn(name string, n uint64, seed []byte) bool {
	if All() {
		return true
	}
	sum := sha256.Sum256(append([]byte(name+"\x00"), seed...))
	return binary.LittleEndian.Uint64(sum[:])%n == 0
}

// All reports whether all cases are to run.
func All() bool { return os.Getenv(Variable) == "all" }
