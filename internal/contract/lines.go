// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

func bodyOf(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// checkLines judges the lines of a body by the schema that x-lines names. A body
// that is not complete may end anywhere.
func (d *Document) checkLines(media *openapi3.MediaType, body []byte, complete bool) error {
	ref, ok := media.Extensions["x-lines"].(string)
	if !ok {
		return nil
	}
	schema := d.schema(ref)
	if schema == nil {
		return fmt.Errorf("the document has no %s", ref)
	}
	return eachLine(body, strings.HasSuffix(ref, "Frame"), complete, func(n int, value map[string]any) error {
		if err := schema.VisitJSON(value, openapi3.MultiErrors()); err != nil {
			return fmt.Errorf("line %d is no %s: %w", n, ref, err)
		}
		return nil
	})
}

// eachLine calls see for each line of JSON. In frames a line is followed by as
// many bytes as it says.
func eachLine(body []byte, frames, complete bool, see func(n int, value map[string]any) error) error {
	for n := 0; len(body) > 0; n++ {
		line, rest, ended := bytes.Cut(body, []byte{'\n'})
		if !ended && !complete {
			return nil
		}
		if !ended {
			return fmt.Errorf("line %d does not end", n)
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		var value map[string]any
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := see(n, value); err != nil {
			return err
		}
		if body = rest; !frames {
			continue
		}
		num, _ := value["bytes"].(json.Number)
		size, err := num.Int64()
		switch {
		case err != nil:
			return fmt.Errorf("line %d: bytes: %w", n, err)
		case size <= int64(len(body)):
			body = body[size:]
		case complete:
			return errors.New("the last frame is cut off")
		default:
			return nil
		}
	}
	return nil
}
