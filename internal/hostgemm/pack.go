package hostgemm

import (
	"context"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	// align is the alignment of packed matrices, in elements: 16 bytes, the widest load of every backend.
	align = 4
	// maxPiece is the most that is collected before it is written to a device, in elements: 1 MiB, so that
	// it is still in a core's cache when the backend copies it to memory that the device reads.
	maxPiece = 256 << 10
	// direct is the length from which a stretch of elements is written without packing: copying 64 KiB costs
	// more than a call of Write.
	direct = 16 << 10
	// partSize and maxParts determine how a share is cut: into parts of partSize elements (4 MiB, about 0.5
	// ms of one thread's copying), but at most maxParts. A large batch has enough parts to make lanes end at
	// about the same time.
	partSize = 1 << 20
	maxParts = 64
	// lookEvery is how many problems are packed between two looks at the context: a few milliseconds.
	lookEvery = 4096
)

// move is a matrix and its place on the device, where its rows follow each other.
type move struct {
	matrix
	at int
}

// part is some problems of a batch that one device computes as one program. Only their operands are copied,
// packed.
type part struct {
	batch   planner.Batch // the operands as placed on the device
	uploads [operands][]move
	results []move        // of C; at counts from the part's first result
	sizes   [operands]int // elements on the device
	first   int           // where the part's results start among those of the batch
	program driver.Program
}

// cut packs a share of the batch as parts of about equal size, in the order of the batch, so that
// consecutive operands stay together. It leaves out problems that write nothing. If parts would send a
// quarter more than the whole, because problems share operands, there is only one part. It fails only if ctx
// ends.
func cut(ctx context.Context, batch planner.Batch, e *planner.Epilogue, share []int) ([]*part, error) {
	whole, err := pack(ctx, batch, e, share)
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
		filled += elements(&batch[i], e)
		if filled < size && end < len(share)-1 {
			continue
		}
		p, err := pack(ctx, batch, e, share[first:end+1])
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

// pack places the operands of the problems of a part.
func pack(ctx context.Context, batch planner.Batch, e *planner.Epilogue, share []int) (*part, error) {
	p, left := new(part), onDevice(*e)
	var all [operands][]matrix
	for n, i := range share {
		if err := look(ctx, n); err != nil {
			return nil, err
		}
		q := batch[i]
		if !left.Writes(&q) {
			continue
		}
		for of, m := range operandsOf(&q, e) {
			all[of] = append(all[of], m)
		}
		p.batch = append(p.batch, q)
	}
	for of := range all {
		if of == operandC {
			p.placeResults(all[of])
			continue
		}
		places := make([]planner.Matrix, len(p.batch))
		var err error
		if p.uploads[of], p.sizes[of], err = packOperands(ctx, all[of], places); err != nil {
			return nil, err
		}
		for i := range p.batch {
			place(&p.batch[i], of, places[i])
		}
	}
	return p, nil
}

// place sets where an operand of a problem is on the device, which has no lists.
func place(q *planner.Problem, of int, at planner.Matrix) {
	switch of {
	case operandA:
		q.A, q.RowsA = at, 0
	case operandB:
		q.B = at
	case operandB2:
		q.B2 = at
	case operandBias:
		q.Bias = at.Offset
	case operandRows:
		q.Weights = at.Offset
	}
}

// placeResults places C of the problems, one after the other.
func (p *part) placeResults(cs []matrix) {
	for i, c := range cs {
		m, q := move{c, p.sizes[operandC]}, &p.batch[i]
		p.results = append(p.results, m)
		if q.Beta != 0 {
			p.uploads[operandC] = append(p.uploads[operandC], m)
		}
		q.C, q.RowsC = planner.Matrix{Offset: m.at, LD: c.cols}, 0
		p.sizes[operandC] = aligned(m.at + c.rows*c.cols)
	}
}

// look looks at the context at one problem of lookEvery.
func look(ctx context.Context, problem int) error {
	if problem%lookEvery == 0 {
		return ctx.Err()
	}
	return nil
}

// packOperands places matrices one after the other, without the gaps between their rows, and a matrix that
// several problems read only once. If that saves nothing, because they are already dense or overlap, they
// stay in place and all move as one, unless rows are gathered.
func packOperands(ctx context.Context, operands []matrix, places []planner.Matrix) (moves []move,
	size int, err error) {
	seen := make(map[matrix]int, len(operands))
	low, high, gathered := -1, 0, false
	for i, m := range operands {
		if err := look(ctx, i); err != nil {
			return nil, 0, err
		}
		if m.rows*m.cols == 0 {
			places[i] = planner.Matrix{LD: m.ld}
			continue
		}
		gathered = gathered || m.stored > 0
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
	low = low / align * align // preserves alignment
	if gathered || size < high-low {
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

// moved returns how many elements a part moves between host and device.
func (p *part) moved() int {
	n := p.sizes[operandC]
	for _, moves := range p.uploads {
		for i := range moves {
			n += moves[i].rows * moves[i].cols
		}
	}
	return n
}

// scatter copies results to the regions of C.
func (p *part) scatter(results, c []float32, lists []int32) {
	results = results[p.first:]
	for i := range p.results {
		m, at := p.results[i].stretches(), p.results[i].at
		for row := range m.rows {
			if to := m.row(row, lists); to >= 0 {
				copy(c[to:][:m.cols], results[at+row*m.cols:])
			}
		}
	}
}

// uploader writes matrices to a device buffer, in pieces, in the order of their places.
type uploader struct {
	piece []float32 // not written yet
	at    int       // place of the piece on the device
	zeros []float32 // a zero row
}

func (u *uploader) upload(ctx context.Context, to driver.Buffer, moves []move, from []float32,
	lists []int32) error {
	u.piece = u.piece[:0]
	for i := range moves {
		m, at := moves[i].stretches(), moves[i].at
		for row := range m.rows {
			src := u.zeros
			if first := m.row(row, lists); first >= 0 {
				src = from[first:]
			} else if len(src) < m.cols {
				u.zeros = make([]float32, m.cols)
				src = u.zeros
			}
			if err := u.add(ctx, to, at+row*m.cols, src[:m.cols]); err != nil {
				return err
			}
		}
	}
	return u.flush(ctx, to)
}

// add adds a stretch of elements for place at.
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
