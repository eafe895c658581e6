package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A line of the shape of the line before is read as any other line.
func TestObjectShapeReadsAsReadObject(t *testing.T) {
	lines := []string{
		`{"t_us":1,"ip":"192.0.2.1","ok":true,"none":null}`,
		`{"t_us":22,"ip":"192.0.2.10","ok":false,"none":null}`,
		`{"t_us":-3,"ip":"","ok":true,"none":null}`,
		`{"t_us":01,"ip":"192.0.2.1","ok":true,"none":null}`,  // not JSON
		`{"t_us":1.5,"ip":"192.0.2.1","ok":true,"none":null}`, // read by encoding/json
		`{"t_us":1,"ip":"a\u0062\"","ok":true,"none":null}`,
		`{"t_us":1,"ip":"é","ok":true,"none":null}`,
		`{"t_us":1,"ip":"` + "\xff" + `","ok":true,"none":null}`,
		`{"t_us":1,"ip":"192.0.2.1","ok":null,"none":true}`,
		`{"t_us":1,"ip":192,"ok":true,"none":null}`,
		`{"t_us":1,"ip":[1],"ok":true,"none":null}`,
		`{"t_us":1,"ip":"192.0.2.1","ok":true,"none":null} `,
		`{"t_us":1,"ip":"192.0.2.1","ok":true,"none":null}}`,
		`{"t_us":1,"ip":"192.0.2.1","ok":true,"none":null,"more":1}`,
		`{"t_us":1,"ip":"192.0.2.1","ok":true,"none":`,
		`{"t_us":1,"ip":"192.0.2.1`,
		`{"t_us":`,
		`{"t_us" : 1, "ip" : "192.0.2.1", "ok" : true, "none" : null}`,
		`{"header:X-Tenant":"a","t":"2015-05-17T10:05:03Z"}`,
		`{"start_time":"2015-05-17T10:05:03Z","response_code":200,"path":"/a?b"}`,
		`{}`,
		``,
	}
	random := rand.New(rand.NewPCG(1, 2))
	r := lineReader{}
	for range 20_000 {
		line := lines[random.IntN(len(lines))]
		if random.IntN(2) == 0 {
			line = lines[0] // the shape that is known most of the time
		}
		if random.IntN(8) == 0 && line != "" { // one byte differs
			at := random.IntN(len(line))
			line = line[:at] + string(`"{}:,019ax \`[random.IntN(12)]) + line[at+1:]
		}
		want, wantAt, wantErr := Format{}.fields(line, nil)
		got, at, err := r.fields(line, nil)
		if (err == nil) != (wantErr == nil) || err == nil && (at != wantAt || !slices.Equal(got, want)) {
			t.Fatalf("%s\ngot  %v at %d, %v\nwant %v at %d, %v", line, got, at, err, want, wantAt, wantErr)
		}
	}
}

// Most lines of a log are of the shape that was learned, also if it has lines of a few other shapes.
func TestObjectShapeIsLearned(t *testing.T) {
	var s objectShape
	known := 0
	for i := range 1600 {
		line := `{"t_us":12,"ip":"192.0.2.1"}`
		if i%10 == 3 {
			line = `{"t_us":12,"user":"ann"}`
		}
		read, ok := s.read(line, nil)
		if !ok {
			s.learn(line)
			continue
		}
		if known++; read[1].value != "192.0.2.1" && read[1].value != "ann" {
			t.Fatal(read)
		}
	}
	if known < 1000 {
		t.Errorf("%d lines of 1600 were of the shape", known)
	}
}
