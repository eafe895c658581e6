package server

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// frameHeaderSize is what each frame of HTTP/2 begins with: RFC 9113, section
// 4.1.
const frameHeaderSize = 9

// maxFrame is the longest frame that is looked into. Nobody here has allowed
// longer ones, so they end the connection.
const maxFrame = 16 << 10

// frame is one of HTTP/2, with its payload where that says something of
// windows.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	size    int
	payload []byte
}

// frames finds the frames in what comes or goes over a connection, in whatever
// parts. It keeps a few bytes only. It is not safe for use by many goroutines
// at once.
type frames struct {
	skip int // bytes until the next of interest
	need int // bytes of the header and payload that is being kept
	kept []byte
}

// scan calls found for every frame of interest that is whole with this part,
// and for all others once their header is.
func (s *frames) scan(part []byte, found func(frame)) {
	for len(part) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(part))
			s.skip, part = s.skip-n, part[n:]
			continue
		}
		n := min(max(s.need, frameHeaderSize)-len(s.kept), len(part))
		s.kept, part = append(s.kept, part[:n]...), part[n:]
		s.tell(found)
	}
}

// tell looks at what is kept: a header, a whole frame, or a part of either.
func (s *frames) tell(found func(frame)) {
	if len(s.kept) < max(s.need, frameHeaderSize) {
		return
	}
	f := headerOf(s.kept)
	if s.need == 0 && f.speaksOfWindows() && f.size > 0 {
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

func (f *frame) speaksOfWindows() bool {
	return f.size <= maxFrame && (f.kind == http2.FrameSettings || f.kind == http2.FrameWindowUpdate)
}

// endsStream reports whether nothing comes after the frame on its stream, from
// who sends it.
func (f *frame) endsStream() bool {
	switch f.kind {
	case http2.FrameRSTStream:
		return true
	case http2.FrameData, http2.FrameHeaders:
		return f.flags.Has(http2.FlagDataEndStream) // the same bit for both
	}
	return false
}

// increment is what a WINDOW_UPDATE adds.
func (f *frame) increment() int64 {
	if len(f.payload) != 4 {
		return 0
	}
	return int64(binary.BigEndian.Uint32(f.payload) &^ (1 << 31))
}

// initialWindow is the one that a SETTINGS says, last if more than once.
func (f *frame) initialWindow() (size int64, said bool) {
	for p := f.payload; len(p) >= 6; p = p[6:] {
		if http2.SettingID(binary.BigEndian.Uint16(p)) == http2.SettingInitialWindowSize {
			size, said = int64(binary.BigEndian.Uint32(p[2:])), true
		}
	}
	return size, said
}
