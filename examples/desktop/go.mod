// A module of its own, so that nobody else needs a library for windows.
module github.com/batchgemm/batchgemm/examples/desktop

go 1.25.0

require (
	github.com/batchgemm/batchgemm v0.0.0
	github.com/hajimehoshi/ebiten/v2 v2.8.8
	github.com/jezek/xgb v1.1.1
	github.com/stretchr/testify v1.12.1
	golang.org/x/image v0.45.0
)

require (
	github.com/ebitengine/gomobile v0.0.0-20240911145611-4856209ac325 // indirect
	github.com/ebitengine/hideconsole v1.0.0 // indirect
	github.com/ebitengine/purego v0.8.0 // indirect
	github.com/go-text/typesetting v0.2.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/rajveermalviya/go-webgpu/wgpu v0.17.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/batchgemm/batchgemm => ../..
