package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"time"
)

// JobFileType is the media type of a job file, which POST /v1/jobs takes as well as JSON.
const JobFileType = "application/yaml"

// submit takes a job: complete in JSON, or a job file as `peer submit` takes it, which gets its
// defaults here.
func submit() Call {
	c := custom[Submitted](func(b Backend, w http.ResponseWriter, r *http.Request) {
		s, err := submission(b, w, r)
		switch {
		case err != nil:
			fail(w, err)
		case r.URL.Query().Get("dry_run") == "1":
			v, err := b.Preview(r.Context(), s)
			answer(w, v, err)
		default:
			v, err := b.Submit(r.Context(), s)
			answer(w, v, err)
		}
	}, Backend.Submit, Backend.Preview, Backend.ReadJobFile)
	c.Takes = reflect.TypeFor[Submit]()
	return c
}

// fileTime bounds how long a job file may take to come.
const fileTime = 30 * time.Second

func submission(b Backend, w http.ResponseWriter, r *http.Request) (s Submit, err error) {
	if is, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); is != JobFileType {
		return body[Submit](w, r)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(fileTime)) // a test's writer has none
	file, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, big := errors.AsType[*http.MaxBytesError](err); big {
		return s, Errorf(Usage, "the job file is larger than %d bytes", MaxBody)
	} else if err != nil {
		return s, Errorf(Usage, "cannot read the job file: %v", err)
	}
	s.Job, err = b.ReadJobFile(r.Context(), r.URL.Query().Get("name"), file)
	return s, err
}
