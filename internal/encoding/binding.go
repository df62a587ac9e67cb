package encoding

// Numbers of the bindings of a shader, in group 0.
const (
	BindItems     = 0
	BindA         = 1
	BindB         = 2
	BindC         = 3
	BindTable     = 4
	BindWorkspace = 5
	BindSizes     = 6
	BindB2        = 7
	BindBias      = 8
	BindRows      = 9

	Bindings = 10 // in all; a shader uses 8 at most, which every adapter grants
)

// Operands says which operands besides A and C the runs of a plan have.
type Operands struct{ B, Sizes, Rows bool }

// EntryPoint is the name of the compute entry point of every shader.
const EntryPoint = "main"

// Binding is a storage buffer that a shader declares.
type Binding struct {
	Number  int  // BindItems and the others
	Written bool // the shader writes it, and may read it too
}
