// SPDX-License-Identifier: Apache-2.0

package api

import (
	_ "embed"
	"encoding/json"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the contract as an OpenAPI document in JSON: every route with
// its parameters, bodies, answers and headers. It is made of openapi.yaml once;
// the caller must not change it.
func OpenAPI() []byte { return openAPIJSON() }

var openAPIJSON = sync.OnceValue(func() []byte {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		panic("api: openapi.yaml, which is part of the program: " + err.Error())
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic("api: openapi.yaml, which is part of the program: " + err.Error())
	}
	return b
})
