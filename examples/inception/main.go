// Inception runs the three convolution branches of an Inception module (1x1,
// 3x3 and 5x5 filters) over an image as one batch of matrix products, and
// compares the result with direct convolution.
//
// Convolution becomes a product by im2col: row p of A holds the pixels under the
// filter at position p, column f of B the weights of filter f. The branches have
// the same M (positions) but their own N (filters) and K (filter area x
// channels), which is why they make one irregular batch.
package main

import (
	"context"
	"fmt"
	"go/build"
	"image"
	"image/color"
	"image/png"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	side     = 56 // the image is sampled to side x side pixels
	channels = 3
)

// branch is one convolution: size x size filters, zero padding, stride 1.
type branch struct{ size, filters int }

var branches = []branch{{1, 64}, {3, 128}, {5, 32}}

func (b branch) depth() int { return b.size * b.size * channels }

func main() {
	ctx := context.Background()
	dev, err := dispatch.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	pixels, source := loadImage()
	problems := make([]planner.Problem, len(branches))
	for i, b := range branches {
		problems[i] = planner.GEMM(side*side, b.filters, b.depth())
	}
	batch, err := planner.Pack(problems...)
	if err != nil {
		log.Fatal(err)
	}
	need := batch.Lengths(planner.Epilogue{})
	a, weights, c := make([]float32, need.A), make([]float32, need.B), make([]float32, need.C)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range weights {
		weights[i] = rng.Float32()*2 - 1
	}
	for i, b := range branches {
		im2col(a[batch[i].A.Offset:], pixels, b)
	}
	operands := dispatch.Slices[float32, float32]{A: a, B: weights, C: c}
	if err := dispatch.GEMM(ctx, dev, batch, planner.Options{}, operands); err != nil {
		log.Fatal(err)
	}

	fmt.Printf("%s on %s\n", source, dev.Info().Name)
	for i, b := range branches {
		p := batch[i]
		worst := compare(c[p.C.Offset:], pixels, weights[p.B.Offset:], b)
		fmt.Printf("%dx%d branch, %dx%dx%d: largest difference from direct convolution %.2g\n", b.size,
			b.size, p.M, p.N, p.K, worst)
		if !(worst < 1e-4) {
			log.Fatal("the branches differ from direct convolution")
		}
	}
}

// loadImage reads a photograph from Go's source, or draws a picture. It returns side x side pixels of
// interleaved channels in [0, 1].
func loadImage() (pixels []float32, source string) {
	name := filepath.Join(build.Default.GOROOT, "src", "image", "testdata", "video-001.png")
	var img image.Image = drawn{}
	source = "a drawn image"
	if f, err := os.Open(name); err == nil {
		defer f.Close()
		if photo, err := png.Decode(f); err == nil {
			img, source = photo, filepath.Base(name)
		}
	}
	pixels = make([]float32, 0, side*side*channels)
	bounds := img.Bounds()
	for y := range side {
		for x := range side {
			r, g, b, _ := img.At(bounds.Min.X+x*bounds.Dx()/side, bounds.Min.Y+y*bounds.Dy()/side).RGBA()
			pixels = append(pixels, float32(r)/0xffff, float32(g)/0xffff, float32(b)/0xffff)
		}
	}
	return pixels, source
}

// drawn is a picture of coloured rings.
type drawn struct{}

func (drawn) ColorModel() color.Model { return color.RGBAModel }
func (drawn) Bounds() image.Rectangle { return image.Rect(0, 0, side, side) }
func (drawn) At(x, y int) color.Color {
	r := math.Hypot(float64(x-side/2), float64(y-side/2))
	return color.RGBA{uint8(127 + 127*math.Sin(r)), uint8(4 * x), uint8(4 * y), 255}
}

// pixel returns 0 outside of the image.
func pixel(pixels []float32, x, y, ch int) float32 {
	if x < 0 || y < 0 || x >= side || y >= side {
		return 0
	}
	return pixels[(y*side+x)*channels+ch]
}

// im2col fills one row of a for every position of the filter.
func im2col(a, pixels []float32, b branch) {
	i := 0
	for y := range side {
		for x := range side {
			for dy := range b.size {
				for dx := range b.size {
					for ch := range channels {
						a[i] = pixel(pixels, x+dx-b.size/2, y+dy-b.size/2, ch)
						i++
					}
				}
			}
		}
	}
}

// compare returns the largest difference of a branch from direct convolution in
// float64.
func compare(c, pixels, weights []float32, b branch) (worst float64) {
	for y := range side {
		for x := range side {
			for f := range b.filters {
				var sum float64
				k := 0
				for dy := range b.size {
					for dx := range b.size {
						for ch := range channels {
							sum += float64(pixel(pixels, x+dx-b.size/2, y+dy-b.size/2, ch)) *
								float64(weights[k*b.filters+f])
							k++
						}
					}
				}
				worst = math.Max(worst, math.Abs(sum-float64(c[(y*side+x)*b.filters+f])))
			}
		}
	}
	return worst
}
