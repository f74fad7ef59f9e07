package filestore

import (
	"bytes"
	"context"
	"io"
)

// scanChunk is how much a scan reads at once. A line may be longer.
const scanChunk = 256 << 10

// scanLines calls each with the lines from offset to end, without line feeds.
// What follows the last line feed is yielded too, with whole false. The bytes
// are good until each returns. If each returns false the scan ends.
func scanLines(ctx context.Context, r io.ReaderAt, offset, end int64, each func(b []byte, at int64, whole bool) bool) error {
	buf := make([]byte, 0, min(scanChunk, end-offset))
	for offset < end || len(buf) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(end-offset, int64(max(scanChunk, len(buf))))) // a long line is read in pieces that double
		had := len(buf)
		if cap(buf)-had < n {
			buf = append(make([]byte, 0, had+n), buf...)
		}
		read, err := r.ReadAt(buf[had:had+n], offset)
		buf, offset = buf[:had+read], offset+int64(read)
		if read < n && err != io.EOF {
			return err
		}
		if read < n {
			end = offset // shorter than it was
		}
		start := offset - int64(len(buf))
		rest, looked := buf, had
		for {
			i := bytes.IndexByte(rest[looked:], '\n')
			if i < 0 {
				break
			}
			i += looked
			looked = 0
			if !each(rest[:i], start, true) {
				return nil
			}
			rest, start = rest[i+1:], start+int64(i)+1
		}
		if offset == end {
			if len(rest) > 0 {
				each(rest, start, false)
			}
			return nil
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
	}
	return nil
}

// scanBack calls each with the whole lines before end, the last one first. The
// bytes are good for ever. If each returns false the scan ends.
func scanBack(ctx context.Context, r io.ReaderAt, end int64, each func(b []byte, at int64) bool) error {
	chunk := int64(16 << 10)
	for end > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := max(0, end-chunk)
		buf := make([]byte, end-start)
		if n, err := r.ReadAt(buf, start); n < len(buf) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		first := 0 // of the first line that begins in buf
		if start > 0 {
			i := bytes.IndexByte(buf[:len(buf)-1], '\n')
			if i < 0 {
				chunk *= 2 // the line is longer
				continue
			}
			first = i + 1
		}
		for to := len(buf) - 1; to >= first; {
			from := bytes.LastIndexByte(buf[first:to], '\n') + 1 + first
			if !each(buf[from:to:to], start+int64(from)) {
				return nil
			}
			to = from - 1
		}
		end = start + int64(first)
		chunk = min(2*chunk, 4<<20)
	}
	return nil
}
