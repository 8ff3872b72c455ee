package diff

import (
	"context"

	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/privacy"
)

// Tell runs a capture through a tracker and keeps its story, masked where mask is not nil.
func Tell(ctx context.Context, s Side, mask *privacy.Mask) (*Story, error) {
	src, err := s.Open()
	if err != nil {
		return nil, err
	}
	story := &Story{}
	o := engine.Options{Privacy: mask, CheckICRC: true, Track: true}
	story.Collect(&o.Tracker)
	got, _ := engine.New(o).Run(ctx, src) // what is wrong with the file, the comparison of packets has said
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if got.Snapshot != nil {
		story.Close(got.Snapshot)
	}
	return story, nil
}
