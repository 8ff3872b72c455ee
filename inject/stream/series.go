package stream

import (
	"fmt"
	"strconv"
	"strings"
)

// Series is a number for each QP: "0x11+2" is 0x11, 0x13, 0x15 …, "7" is 7 for all, "5,9" is 5, 9, 5, 9 ….
type Series struct {
	base, step uint64
	list       []uint64
}

// Steps is the series from base on.
func Steps(base, step uint64) Series { return Series{base: base, step: step} }

// ParseSeries reads a series of numbers up to most.
func ParseSeries(text string, most uint64) (Series, error) {
	var s Series
	number := func(word string) (uint64, error) {
		v, err := strconv.ParseUint(strings.TrimSpace(word), 0, 64)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%q is no number", word)
		case v > most:
			return 0, fmt.Errorf("%s is too large: at most 0x%x", word, most)
		}
		return v, nil
	}
	var err error
	if base, step, ok := strings.Cut(text, "+"); ok {
		if s.base, err = number(base); err == nil {
			s.step, err = number(step)
		}
		return s, err
	}
	words := strings.Split(text, ",")
	if len(words) == 1 {
		s.base, err = number(text)
		return s, err
	}
	for _, word := range words {
		v, err := number(word)
		if err != nil {
			return s, err
		}
		s.list = append(s.list, v)
	}
	return s, nil
}

// At is the number of QP i.
func (s *Series) At(i int) uint64 {
	if s.list != nil {
		return s.list[i%len(s.list)]
	}
	return s.base + uint64(i)*s.step
}

func (s *Series) String() string {
	switch {
	case s.list != nil:
		words := make([]string, len(s.list))
		for i, v := range s.list {
			words[i] = fmt.Sprintf("0x%x", v)
		}
		return strings.Join(words, ",")
	case s.step != 0:
		return fmt.Sprintf("0x%x+%d", s.base, s.step)
	}
	return fmt.Sprintf("0x%x", s.base)
}
