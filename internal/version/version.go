// Package version has the version of all releases: the Go module, the command, the library for C and the
// Python package.
package version

// Version is the number of the release, which has a section in CHANGELOG.md. Scripts read it from this line.
const Version = "0.2.0"
