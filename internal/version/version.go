// Package version has the one number that releases of everything here are known by: the Go module, the
// command, the library for C and the Python package.
package version

// Version is that number, which CHANGELOG.md has a section of. Scripts read it from this line.
const Version = "0.2.0"
