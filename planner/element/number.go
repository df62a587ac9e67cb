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

// Nearest returns the number of a type that is nearest to x, by the rules of Type.Bits.
func Nearest[T BFloat16 | Float16 | Float8E4M3 | int8](x float32) T { return T(TypeOf[T]().Bits(x)) }

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
	case float64:
		return F64
	}
	return F32
}
