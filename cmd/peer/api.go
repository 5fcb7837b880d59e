package main

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

// maxRequest caps the body of a raw request in bytes; the peer's own cap is below it.
const maxRequest = 64 << 20

func apiCommand(c *cli) *cobra.Command {
	var document bool
	var body string
	cmd := &cobra.Command{
		Use:   "api METHOD PATH",
		Short: "Ask this peer's HTTP API, and print its answer as it is",
		Long: `Ask this peer's HTTP API, and print its answer as it is: one JSON value, or JSON lines where the
call is a stream. --body sends a file (- is stdin), as YAML if its name ends so, otherwise as JSON.

--openapi prints the document of all calls (OpenAPI 3.1), for generators and readers; it needs no
peer. docs/api.md says more.`,
		Example: `  peer api GET /v1/peers
  peer api GET '/v1/watch'                                events, until Ctrl-C
  peer api POST '/v1/jobs?dry_run=1' --body sweep.yaml    where would it run?
  peer api --openapi >covey.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if document {
				return exactly(0, "")(cmd, args)
			}
			return exactly(2, "a method and a path, as in GET /v1/peers")(cmd, args)
		},
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			if document {
				_, err := io.WriteString(c.Out, api.OpenAPI())
				return err
			}
			return c.raw(cmd, strings.ToUpper(args[0]), args[1], body)
		}),
	}
	cmd.Flags().BoolVar(&document, "openapi", false, "print the document of all calls")
	cmd.Flags().StringVar(&body, "body", "", "send what is in `FILE`; - is stdin")
	return cmd
}

func (c *cli) raw(cmd *cobra.Command, method, path, file string) error {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}
	if !slices.Contains(methods, method) || !strings.HasPrefix(path, "/") {
		return api.Errorf(api.Usage, "%s %s: expected one of %s, and a path as in /v1/peers; `peer api --openapi` lists them", method, path, strings.Join(methods, " "))
	}
	var body io.Reader
	media := ""
	if file != "" {
		data, err := fileOrStdin(file, c.In, maxRequest)
		if err != nil {
			return api.Errorf(api.Usage, "%v", err)
		}
		body, media = bytes.NewReader(data), "application/json"
		if ext := filepath.Ext(file); ext == ".yaml" || ext == ".yml" {
			media = api.JobFileType
		}
	}
	answer, err := c.client().Raw(cmd.Context(), method, path, media, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err := io.Copy(c.Out, answer); err != nil {
		return api.Errorf(api.Failed, "the answer broke off: %v", err)
	}
	return nil
}
