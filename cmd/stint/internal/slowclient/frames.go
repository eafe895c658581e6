package slowclient

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// frameHeaderSize is the size of an HTTP/2 frame header: RFC 9113, section 4.1.
const frameHeaderSize = 9

// maxFrame is the longest frame whose payload is read. This server allows no longer
// frames, so they end the connection.
const maxFrame = 16 << 10

// frame is an HTTP/2 frame. Its payload is kept only for SETTINGS and WINDOW_UPDATE.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	size    int
	payload []byte
}

// frames splits the byte stream of a connection into frames, however it is divided into
// reads or writes. It buffers only frame headers and the payloads it needs. It is not
// safe for concurrent use.
type frames struct {
	skip int // bytes to skip before the next frame header
	need int // bytes of header and payload to buffer
	kept []byte
}

// scan calls found for each frame. A SETTINGS or WINDOW_UPDATE frame is reported when it
// is complete, any other frame when its header is.
func (s *frames) scan(part []byte, found func(frame)) {
	for len(part) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(part))
			s.skip, part = s.skip-n, part[n:]
			continue
		}
		n := min(max(s.need, frameHeaderSize)-len(s.kept), len(part))
		s.kept, part = append(s.kept, part[:n]...), part[n:]
		s.report(found)
	}
}

// report calls found once the buffer holds a complete header or a complete frame.
func (s *frames) report(found func(frame)) {
	if len(s.kept) < max(s.need, frameHeaderSize) {
		return
	}
	f := headerOf(s.kept)
	if s.need == 0 && f.changesWindows() && f.size > 0 {
		s.need = frameHeaderSize + f.size
		return
	}
	f.payload = s.kept[frameHeaderSize:]
	s.skip = f.size - len(f.payload)
	found(f)
	s.need, s.kept = 0, s.kept[:0]
}

func headerOf(b []byte) frame {
	return frame{
		size: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind: http2.FrameType(b[3]), flags: http2.Flags(b[4]),
		stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

func (f *frame) changesWindows() bool {
	return f.size <= maxFrame && (f.kind == http2.FrameSettings || f.kind == http2.FrameWindowUpdate)
}

// endsStream reports whether the frame is the last that its sender sends on its stream.
func (f *frame) endsStream() bool {
	switch f.kind {
	case http2.FrameRSTStream:
		return true
	case http2.FrameData, http2.FrameHeaders:
		return f.flags.Has(http2.FlagDataEndStream) // the same bit for both
	}
	return false
}

// increment returns the increment of a WINDOW_UPDATE frame.
func (f *frame) increment() int64 {
	if len(f.payload) != 4 {
		return 0
	}
	return int64(binary.BigEndian.Uint32(f.payload) &^ (1 << 31))
}

// initialWindow returns the initial window size in a SETTINGS frame; the last one counts.
func (f *frame) initialWindow() (size int64, ok bool) {
	for p := f.payload; len(p) >= 6; p = p[6:] {
		if http2.SettingID(binary.BigEndian.Uint16(p)) == http2.SettingInitialWindowSize {
			size, ok = int64(binary.BigEndian.Uint32(p[2:])), true
		}
	}
	return size, ok
}
