// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/lockstead/lockstead/test/bench/internal/result"
	"github.com/lockstead/lockstead/test/bench/internal/stats"
)

const (
	width      = 760.0
	labelWidth = 190.0
	rightSpace = 90.0
	barHeight  = 18.0
	barSpace   = 28.0
	topSpace   = 34.0
)

// color is that of the bare protocol, of this library, and of peers.
func color(s result.Series) string {
	switch {
	case s.Peer:
		return "#b0b7c3"
	case strings.HasPrefix(s.Subject, "lockstead"):
		return "#2563a8"
	default:
		return "#6b7280"
	}
}

func begin(b *strings.Builder, height float64, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12" role="img">`+"\n", width, height)
	fmt.Fprintf(b, `<title>%s</title><rect width="%g" height="%g" fill="#ffffff"/>`+"\n", html.EscapeString(title), width, height)
	fmt.Fprintf(b, `<text x="8" y="20" font-weight="bold">%s</text>`+"\n", html.EscapeString(title))
}

// bars draws the first metric of each subject, with its quartiles. When the longest is far longer than the shortest, the scale is logarithmic.
func bars(m result.Measure) string {
	metric := m.Metrics[0]
	var b strings.Builder
	title := m.Title + ": " + metric.Name
	if metric.Unit != "" {
		title += " in " + metric.Unit
	}
	summaries := map[string]stats.Spread{}
	low, high := math.Inf(1), 0.0
	for _, s := range m.Series {
		if spread, ok := m.Summary(s.Subject, metric.Name); ok {
			summaries[s.Subject] = spread
			if spread.Low > 0 {
				low = min(low, spread.Low)
			}
			high = max(high, spread.High)
		}
	}
	scale := scaleOf(low, high)
	if scale.logarithmic {
		title += " (logarithmic)"
	}
	begin(&b, topSpace+barSpace*float64(len(m.Series))+8, title)
	y := topSpace
	for _, s := range m.Series {
		spread, ok := summaries[s.Subject]
		if ok {
			space := width - labelWidth - rightSpace
			end := labelWidth + scale.place(spread.Median)*space
			fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end">%s</text>`, labelWidth-8, y+13, html.EscapeString(s.Subject))
			fmt.Fprintf(&b, `<rect x="%g" y="%g" width="%.1f" height="%g" fill="%s"/>`, labelWidth, y, max(end-labelWidth, 1), barHeight, color(s))
			fmt.Fprintf(&b, `<path d="M%.1f %gH%.1f" stroke="#111827"/>`, labelWidth+scale.place(spread.Low)*space, y+barHeight/2, labelWidth+scale.place(spread.High)*space)
			fmt.Fprintf(&b, `<text x="%.1f" y="%g">%s</text>`+"\n", labelWidth+scale.place(spread.High)*space+6, y+13, number(spread.Median))
		}
		y += barSpace
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// scale maps values to 0 to 1.
type scale struct {
	low, high   float64
	logarithmic bool
}

func scaleOf(low, high float64) scale {
	const far = 50
	if low > 0 && high > low*far {
		return scale{low: low / 2, high: high, logarithmic: true}
	}
	return scale{high: high}
}

func (s scale) place(v float64) float64 {
	switch {
	case s.high <= s.low || math.IsNaN(v):
		return 0
	case s.logarithmic:
		return max(0, math.Log(v/s.low)/math.Log(s.high/s.low))
	default:
		return max(0, (v-s.low)/(s.high-s.low))
	}
}

// lines draws the first metric of each subject over the points of a curve.
func lines(points []result.Measure) string {
	const left, bottom, height = 70.0, 46.0, 340.0
	first := points[0]
	metric := first.Metrics[0]
	low, high := math.Inf(1), 0.0
	for _, p := range points {
		for _, s := range p.Series {
			if spread, ok := p.Summary(s.Subject, metric.Name); ok {
				if spread.Median > 0 {
					low = min(low, spread.Median)
				}
				high = max(high, spread.Median)
			}
		}
	}
	vertical, horizontal := scaleOf(low, high), scaleOf(points[0].X, points[len(points)-1].X)
	var b strings.Builder
	title := first.Title + ": " + metric.Name
	if metric.Unit != "" {
		title += " in " + metric.Unit
	}
	begin(&b, height, title)
	x := func(v float64) float64 { return left + horizontal.place(v)*(width-left-220) }
	y := func(v float64) float64 { return height - bottom - vertical.place(v)*(height-bottom-topSpace-14) }
	fmt.Fprintf(&b, `<path d="M%g %gV%gH%g" fill="none" stroke="#9ca3af"/>`+"\n", left, topSpace, height-bottom, width-200)
	for _, p := range points {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`, x(p.X), height-bottom+18, number(p.X))
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", (left+width-220)/2, height-10, html.EscapeString(first.XLabel))
	for _, mark := range []float64{low, math.Sqrt(low * high), high} {
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%s</text>`, left-6, y(mark)+4, number(mark))
	}
	b.WriteString("\n")
	dashes := []string{"none", "6 3", "2 3", "8 3 2 3"}
	for i, s := range first.Series {
		var path []string
		last := 0.0
		for _, p := range points {
			if spread, ok := p.Summary(s.Subject, metric.Name); ok {
				last = y(spread.Median)
				path = append(path, fmt.Sprintf("%.1f %.1f", x(p.X), last))
			}
		}
		fmt.Fprintf(&b, `<path d="M%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`, strings.Join(path, "L"), color(s), dashes[i%len(dashes)])
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" fill="%s">%s</text>`+"\n", width-212, last+4, "#111827", html.EscapeString(s.Subject))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
