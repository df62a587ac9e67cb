package element

// BFloat16 holds the bits of a number of type BF16.
type BFloat16 uint16

// Float16 holds the bits of a number of type F16.
type Float16 uint16

// Float8E4M3 holds the bits of a number of type E4M3.
type Float8E4M3 uint8

// Number lists the Go types of elements. Elements of Int8 are int8.
type Number interface {
	float32 | float64 | BFloat16 | Float16 | Float8E4M3 | int8
}

// Nearest returns the number of a type that is nearest to x, by the rules of Narrow.
func Nearest[T BFloat16 | Float16 | Float8E4M3 | int8](x float32) T {
	switch any(*new(T)).(type) {
	case BFloat16:
		return T(bf16Bits(x))
	case Float16:
		return T(f16Bits(x))
	case Float8E4M3:
		return T(e4m3Bits(x))
	}
	return T(int8Bits(x))
}

// Float32 returns the number, which is exact.
func (x BFloat16) Float32() float32 { return bf16(uint16(x)) }

// Float32 returns the number, which is exact.
func (x Float16) Float32() float32 { return f16(uint16(x)) }

// Float32 returns the number, which is exact.
func (x Float8E4M3) Float32() float32 { return numbersE4M3[x] }
