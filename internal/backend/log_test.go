package backend

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogger(t *testing.T) {
	defer SetLogger(nil)
	require.False(t, Logger().Enabled(t.Context(), slog.LevelError), "silent at first")
	var out bytes.Buffer
	SetLogger(slog.New(slog.NewTextHandler(&out, nil)))
	Logger().Warn("a line", "backend", "cuda")
	require.Contains(t, out.String(), `level=WARN msg="a line" backend=cuda`)
	SetLogger(nil)
	out.Reset()
	Logger().Error("lost")
	require.Empty(t, out.String())
}
