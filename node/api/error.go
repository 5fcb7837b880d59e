package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// Code is the kind of an error at the edges: the API carries it, the command line exits with it.
type Code string

// The codes, with the exit code of the command line.
const (
	Failed        Code = "failed"         // 1
	Usage         Code = "usage"          // 2
	NotFound      Code = "not_found"      // 3
	NoCoordinator Code = "no_coordinator" // 4: nobody decides, or no contact
	TimedOut      Code = "timeout"        // 5
	Conflict      Code = "conflict"       // 6
	Refused       Code = "refused"        // 7
)

var codes = map[Code]struct{ exit, http int }{
	Failed:        {1, http.StatusInternalServerError},
	Usage:         {2, http.StatusBadRequest},
	NotFound:      {3, http.StatusNotFound},
	NoCoordinator: {4, http.StatusServiceUnavailable},
	TimedOut:      {5, http.StatusGatewayTimeout},
	Conflict:      {6, http.StatusConflict},
	Refused:       {7, http.StatusForbidden},
}

// Codes are all codes, in the order of what the command line exits with.
func Codes() []Code {
	return slices.SortedFunc(maps.Keys(codes), func(a, b Code) int { return codes[a].exit - codes[b].exit })
}

// Error is an error with a code: what happened, why, and what to type next.
type Error struct {
	Code    Code   `json:"code" cbor:"1,keyasint"`
	Message string `json:"message" cbor:"2,keyasint"`
}

func (e *Error) Error() string { return e.Message }

// Exit is the exit code of the command line for e.
func (e *Error) Exit() int {
	if c, ok := codes[e.Code]; ok {
		return c.exit
	}
	return 1
}

// Errorf builds an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// AsError finds the Error in err's chain; anything else is Failed.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Failed, Message: err.Error()}
}
