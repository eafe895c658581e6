package envoyrls

import (
	"fmt"
	"maps"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata returns the dynamic metadata of a response: the configured metadata of
// descriptors that were allowed and, if described is set, a description of the request. It is nil
// if there is neither.
func (p *plan) metadata(request *pb.RateLimitRequest, described bool) *structpb.Struct {
	var fields map[string]*structpb.Value
	for i := range p.matches {
		m := &p.matches[i]
		if m.applies() && p.decisions[m.claim].Allowed && m.limit.metadata != nil && p.descriptorAllowed(i) {
			fields = joined(fields, m.limit.metadata.GetFields())
		}
	}
	if described {
		fields = joined(fields, describeRequest(request))
	}
	if fields == nil {
		return nil
	}
	return &structpb.Struct{Fields: fields}
}

// descriptorAllowed reports whether all limits of entry i's descriptor allowed the request.
func (p *plan) descriptorAllowed(i int) bool {
	of := p.matches[i].of
	for i > 0 && p.matches[i-1].of == of {
		i--
	}
	for ; i < len(p.matches) && p.matches[i].of == of; i++ {
		if m := &p.matches[i]; m.applies() && !p.decisions[m.claim].Allowed {
			return false
		}
	}
	return true
}

func joined(to, from map[string]*structpb.Value) map[string]*structpb.Value {
	if to == nil {
		to = make(map[string]*structpb.Value, len(from))
	}
	maps.Copy(to, from)
	return to
}

// describeRequest returns the description of a request in the form of Envoy's service.
func describeRequest(request *pb.RateLimitRequest) map[string]*structpb.Value {
	descriptors := make([]*structpb.Value, len(request.GetDescriptors()))
	for i, d := range request.GetDescriptors() {
		descriptors[i] = structpb.NewStructValue(describeDescriptor(d))
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(request.GetDomain()),
		"descriptors": list(descriptors),
	}
	if n := request.GetHitsAddend(); n > 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	return fields
}

func describeDescriptor(d *common.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
	}
	fields := &structpb.Struct{Fields: map[string]*structpb.Value{"entries": list(entries)}}
	if l := d.GetLimit(); l != nil {
		fields.Fields["limit"] = structpb.NewStringValue(fmt.Sprintf("requests_per_unit:%d unit:%s", l.GetRequestsPerUnit(), l.GetUnit()))
	}
	if own := d.GetHitsAddend(); own != nil {
		fields.Fields["hitsAddend"] = structpb.NewNumberValue(float64(own.GetValue()))
	}
	return fields
}

func list(values []*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}
