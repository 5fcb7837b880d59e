//go:build !race

package membership_test

// raceDetector tells that everything takes ten times as long.
const raceDetector = false
