package p2p_test

import (
	"testing"

	"github.com/coveyproject/covey/p2p"
)

func TestOnlyAPublicKeyIsAKey(t *testing.T) {
	const key = "12D3KooWJ8dL1g6mVcEyKPRgb4U3ySRxPqMDfgK1rgcArwSnoQzb"
	if !p2p.IsKey(key) {
		t.Error("a key is none")
	}
	for _, no := range []string{
		"", "alpha", key[:51], key + "b", key[:51] + "0", " " + key, key + "\n", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N", // the hash of a key is none
		"bafzaajaiaejcbzdibmxyzdjbbehgvizh6g5tikvy47mshdy6gwbruvgwvd24seje", // another writing of a key
	} {
		if p2p.IsKey(no) {
			t.Errorf("%q is a key", no)
		}
	}
}
