package server

import (
	"strings"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// envoyCodec also reads requests of Envoy's filters that contain invalid UTF-8. Envoy
// copies header fields into descriptors as the client sent them. protobuf refuses such a
// message, and Envoy lets a request pass if its check fails, so one invalid byte in a
// header would lift every limit.
type envoyCodec struct{ encoding.CodecV2 }

func newEnvoyCodec() envoyCodec { return envoyCodec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c envoyCodec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var request gproto.Message
	switch v := v.(type) {
	case *ratelimitpb.RateLimitRequest:
		request = v
	case *authpb.CheckRequest:
		request = v
	default:
		return err
	}
	mended, ok := withValidText(data.Materialize(), request.ProtoReflect().Descriptor(), mostNested)
	if !ok || gproto.Unmarshal(mended, request) != nil {
		return err
	}
	return nil
}

// mostNested bounds the nesting depth of messages. Envoy's messages have about a dozen
// levels.
const mostNested = 64

// withValidText returns the encoded message with U+FFFD in place of invalid UTF-8 in its
// string fields, and false if the message cannot be parsed.
func withValidText(message []byte, of protoreflect.MessageDescriptor, nested int) (to []byte, ok bool) {
	if nested == 0 {
		return nil, false
	}
	to = make([]byte, 0, len(message))
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		whole := protowire.ConsumeFieldValue(number, kind, message[n:])
		if whole < 0 {
			return nil, false
		}
		field, value := message[:n+whole], message[n:n+whole]
		message = message[n+whole:]
		known := of.Fields().ByNumber(number)
		if kind != protowire.BytesType || known == nil {
			to = append(to, field...)
			continue
		}
		content, _ := protowire.ConsumeBytes(value)
		switch {
		case known.Kind() == protoreflect.StringKind:
			content = []byte(strings.ToValidUTF8(string(content), "\uFFFD"))
		case known.Kind() == protoreflect.MessageKind:
			if content, ok = withValidText(content, known.Message(), nested-1); !ok {
				return nil, false
			}
		}
		to = protowire.AppendBytes(append(to, field[:n]...), content)
	}
	return to, true
}
