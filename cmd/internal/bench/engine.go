package main

import (
	"context"
	"errors"
	"log/slog"

	"countersign/embedded"
	"countersign/worker"
)

func init() { parts["engine"] = engine } //nolint:gochecknoinits // a part is known by its file

// engine is a Temporal server with its data in memory; it says its address.
func engine([]string) error {
	s, err := embedded.Start(context.Background(), embedded.Options{SearchAttributes: worker.SearchAttributes(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(answerLines(s.Address(), nil), s.Stop())
}
