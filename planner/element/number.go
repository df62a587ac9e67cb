package element

// BFloat16 holds the bits of a number of type BF16.
type BFloat16 uint16

// Float16 holds the bits of a number of type F16.
type Float16 uint16

// Float8E4M3 holds the bits of a number of type E4M3.
type Float8E4M3 uint8

// Number lists the Go types of elements. Elements of Int8 are int8.
type Number interface {
	float32 | BFloat16 | Float16 | Float8E4M3 | int8
}

// NewBFloat16 returns the nearest number; ties go to even.
func NewBFloat16(x float32) BFloat16 { return BFloat16(BF16.Bits(x)) }

// NewFloat16 returns the nearest number; ties go to even.
func NewFloat16(x float32) Float16 { return Float16(F16.Bits(x)) }

// NewFloat8E4M3 returns the nearest number; ties go to even, and larger numbers become 448.
func NewFloat8E4M3(x float32) Float8E4M3 { return Float8E4M3(E4M3.Bits(x)) }

// Float32 returns the number, which is exact.
func (x BFloat16) Float32() float32 { return BF16.Float(uint16(x)) }

// Float32 returns the number, which is exact.
func (x Float16) Float32() float32 { return F16.Float(uint16(x)) }

// Float32 returns the number, which is exact.
func (x Float8E4M3) Float32() float32 { return numbersE4M3[x] }

// TypeOf returns the element type whose Go type is T.
func TypeOf[T Number]() Type {
	switch any(*new(T)).(type) {
	case BFloat16:
		return BF16
	case Float16:
		return F16
	case Float8E4M3:
		return E4M3
	case int8:
		return Int8
	}
	return F32
}
