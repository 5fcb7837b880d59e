package api

import _ "embed"

//go:embed openapi.json
var openapi string

// OpenAPI is the document of the API, in OpenAPI 3.1: a test makes it of Routes, the types in it
// and their comments.
func OpenAPI() string { return openapi }
