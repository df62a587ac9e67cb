package backend

import "fmt"

// FormatUUID writes what libraries give as the UUID of a GPU as those of RFC 9562 are written.
func FormatUUID(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
