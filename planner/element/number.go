package element

// BFloat16 is a number of type BF16, by its bits.
type BFloat16 uint16

// Float16 is a number of type F16, by its bits.
type Float16 uint16

// Float8E4M3 is a number of type E4M3, by its bits.
type Float8E4M3 uint8

// Number is what slices of a type's numbers have as elements; those of Int8 are Go's int8.
type Number interface {
	float32 | BFloat16 | Float16 | Float8E4M3 | int8
}

// NewBFloat16 is the nearest number, of two as near the even one.
func NewBFloat16(x float32) BFloat16 { return BFloat16(BF16.Bits(x)) }

// NewFloat16 is the nearest number, of two as near the even one.
func NewFloat16(x float32) Float16 { return Float16(F16.Bits(x)) }

// NewFloat8E4M3 is the nearest number, of two as near the even one, and of those too large 448.
func NewFloat8E4M3(x float32) Float8E4M3 { return Float8E4M3(E4M3.Bits(x)) }

// Float32 is the same number.
func (x BFloat16) Float32() float32 { return BF16.Float(uint16(x)) }

// Float32 is the same number.
func (x Float16) Float32() float32 { return F16.Float(uint16(x)) }

// Float32 is the same number.
func (x Float8E4M3) Float32() float32 { return numbersE4M3[x] }

// TypeOf is the type that T has the numbers of.
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
