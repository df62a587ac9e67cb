package invalid

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorf(t *testing.T) {
	err := Errorf("size %d: %w", 3, io.EOF)
	require.EqualError(t, err, "size 3: EOF")
	require.ErrorIs(t, err, Err)
	require.ErrorIs(t, err, io.EOF)
	require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
}
