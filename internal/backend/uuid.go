package backend

import "fmt"

// FormatUUID formats a GPU's UUID from a library like RFC 9562.
func FormatUUID(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
