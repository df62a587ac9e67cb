package hostgemm

import (
	"context"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	// align is where packed matrices start, in elements: 16 bytes, the widest
	// load of every backend.
	align = 4
	// maxPiece is the most that is collected before it is written to a device, in
	// elements: 1 MiB, so that it is still in a core's cache when the backend
	// copies it to memory that the device reads.
	maxPiece = 256 << 10
	// direct is the length from which a stretch of elements is written as it
	// lies: copying 64 KiB costs more than a call of Write.
	direct = 16 << 10
	// partSize and maxParts set how a share is cut: into as many parts as have
	// partSize elements (4 MiB, about 0.5 ms of one thread's copying), maxParts at
	// most. Parts of a large batch are so many that lanes end at about the same time.
	partSize = 1 << 20
	maxParts = 64
	// lookEvery is how many problems are packed between two looks at the context:
	// some milliseconds.
	lookEvery = 4096
)

// matrix is an operand in host memory: rows of cols elements, ld apart.
type matrix struct{ offset, ld, rows, cols int }

// stretches shows a matrix without gaps as one row.
func (m matrix) stretches() matrix {
	if m.ld == m.cols {
		m.rows, m.cols = 1, m.rows*m.cols
	}
	return m
}

func operandA(p *planner.Problem) matrix {
	rows, cols := p.ShapeA()
	return matrix{p.A.Offset, p.A.LD, rows, cols}
}

func operandB(p *planner.Problem) matrix {
	rows, cols := p.ShapeB()
	return matrix{p.B.Offset, p.B.LD, rows, cols}
}

func operandC(p *planner.Problem) matrix {
	return matrix{p.C.Offset, p.C.LD, p.M, p.N}
}

// elements is what a problem moves between host and device.
func elements(p *planner.Problem) int {
	n := 0
	if !p.Writes() {
		return n
	}
	if p.Reads() {
		n += p.M*p.K + p.K*p.N
	}
	if p.Beta != 0 {
		n += p.M * p.N
	}
	return n + p.M*p.N
}

// move is a matrix and its place on the device, where its rows follow each other.
type move struct {
	matrix
	at int
}

// part is some problems of a batch that one device computes as one program. Only
// their operands travel, packed.
type part struct {
	batch   planner.Batch // the operands as they lie on the device
	uploads [3][]move     // of A, B and C
	results []move        // of C; at counts from the part's first result
	sizes   [3]int        // elements of the device's A, B and C
	first   int           // where the part's results start among those of the batch
	program driver.Program
}

// cut packs a share of the batch as parts of about equal size, in the order of
// the batch, so that operands that follow each other stay together. Problems
// that write nothing are left out. Where problems share operands so that parts
// would send a quarter more than the whole, the whole is one part. It fails only
// when ctx ends.
func cut(ctx context.Context, batch planner.Batch, share []int) ([]*part, error) {
	whole, err := pack(ctx, batch, share)
	if err != nil {
		return nil, err
	}
	total := whole.moved()
	if total < 2*partSize {
		if len(whole.batch) == 0 {
			return nil, nil
		}
		return []*part{whole}, nil
	}
	size := max(partSize, total/maxParts)
	var parts []*part
	first, filled, sent := 0, 0, 0
	for end, i := range share {
		filled += elements(&batch[i])
		if filled < size && end < len(share)-1 {
			continue
		}
		p, err := pack(ctx, batch, share[first:end+1])
		if err != nil {
			return nil, err
		}
		if len(p.batch) > 0 {
			parts = append(parts, p)
			sent += p.moved()
		}
		if sent > total+total/4 {
			return []*part{whole}, nil
		}
		first, filled = end+1, 0
	}
	return parts, nil
}

// pack lays out the operands of the problems of a part.
func pack(ctx context.Context, batch planner.Batch, share []int) (*part, error) {
	p := new(part)
	var as, bs, cs []matrix
	for n, i := range share {
		if err := look(ctx, n); err != nil {
			return nil, err
		}
		q := batch[i]
		if !q.Writes() {
			continue
		}
		a, b := matrix{ld: q.A.LD}, matrix{ld: q.B.LD}
		if q.Reads() {
			a, b = operandA(&q), operandB(&q)
		}
		as, bs, cs = append(as, a), append(bs, b), append(cs, operandC(&q))
		p.batch = append(p.batch, q)
	}
	placesA, placesB := make([]planner.Matrix, len(as)), make([]planner.Matrix, len(bs))
	var err error
	if p.uploads[0], p.sizes[0], err = packOperands(ctx, as, placesA); err != nil {
		return nil, err
	}
	if p.uploads[1], p.sizes[1], err = packOperands(ctx, bs, placesB); err != nil {
		return nil, err
	}
	for i, c := range cs {
		m := move{c, p.sizes[2]}
		p.results = append(p.results, m)
		if p.batch[i].Beta != 0 {
			p.uploads[2] = append(p.uploads[2], m)
		}
		p.batch[i].A, p.batch[i].B = placesA[i], placesB[i]
		p.batch[i].C = planner.Matrix{Offset: m.at, LD: c.cols}
		p.sizes[2] = aligned(m.at + c.rows*c.cols)
	}
	return p, nil
}

// look looks at the context at one problem of lookEvery.
func look(ctx context.Context, problem int) error {
	if problem%lookEvery == 0 {
		return ctx.Err()
	}
	return nil
}

// packOperands places matrices one behind the other, without the gaps between
// their rows, and a matrix that several problems read only once. Where that
// saves nothing, because they lie densely already or overlap, they stay as they
// are, and all move as one.
func packOperands(ctx context.Context, operands []matrix, places []planner.Matrix) (moves []move, size int, err error) {
	seen := make(map[matrix]int, len(operands))
	low, high := -1, 0
	for i, m := range operands {
		if err := look(ctx, i); err != nil {
			return nil, 0, err
		}
		if m.rows*m.cols == 0 {
			places[i] = planner.Matrix{LD: m.ld}
			continue
		}
		at, ok := seen[m]
		if !ok {
			at = size
			seen[m] = at
			moves = append(moves, move{m, at})
			size = aligned(at + m.rows*m.cols)
		}
		places[i] = planner.Matrix{Offset: at, LD: m.cols}
		if low < 0 || m.offset < low {
			low = m.offset
		}
		high = max(high, m.offset+(m.rows-1)*m.ld+m.cols)
	}
	if low < 0 {
		return nil, 0, nil
	}
	low = low / align * align // what was aligned stays so
	if size < high-low {
		return moves, size, nil
	}
	for i, m := range operands {
		if m.rows*m.cols > 0 {
			places[i] = planner.Matrix{Offset: m.offset - low, LD: m.ld}
		}
	}
	whole := matrix{offset: low, ld: high - low, rows: 1, cols: high - low}
	return []move{{whole, 0}}, high - low, nil
}

func aligned(n int) int { return (n + align - 1) / align * align }

// moved is what a part moves between host and device, in elements.
func (p *part) moved() int {
	n := p.sizes[2]
	for _, moves := range p.uploads {
		for i := range moves {
			n += moves[i].rows * moves[i].cols
		}
	}
	return n
}

// scatter copies results to the regions of C.
func (p *part) scatter(results, c []float32) {
	results = results[p.first:]
	for i := range p.results {
		m, at := p.results[i].stretches(), p.results[i].at
		for row := range m.rows {
			copy(c[m.offset+row*m.ld:][:m.cols], results[at+row*m.cols:])
		}
	}
}

// uploader writes matrices to a device buffer, in pieces, in the order of their places.
type uploader struct {
	piece []float32 // what is not written yet
	at    int       // its place on the device
}

func (u *uploader) upload(ctx context.Context, to driver.Buffer, moves []move, from []float32) error {
	u.piece = u.piece[:0]
	for i := range moves {
		m, at := moves[i].stretches(), moves[i].at
		for row := range m.rows {
			if err := u.add(ctx, to, at+row*m.cols, from[m.offset+row*m.ld:][:m.cols]); err != nil {
				return err
			}
		}
	}
	return u.flush(ctx, to)
}

// add takes a stretch of elements for place at.
func (u *uploader) add(ctx context.Context, to driver.Buffer, at int, src []float32) error {
	gap := at - u.at - len(u.piece)
	if len(src) >= direct || gap >= align || len(u.piece)+gap+len(src) > maxPiece {
		if err := u.flush(ctx, to); err != nil {
			return err
		}
		gap = 0
	}
	if len(src) >= direct {
		return to.Write(ctx, at, src)
	}
	if len(u.piece) == 0 {
		u.at, gap = at, 0
	}
	var zeros [align]float32
	u.piece = append(append(u.piece, zeros[:gap]...), src...)
	return nil
}

func (u *uploader) flush(ctx context.Context, to driver.Buffer) error {
	if len(u.piece) == 0 {
		return nil
	}
	err := to.Write(ctx, u.at, u.piece)
	u.piece = u.piece[:0]
	return err
}
