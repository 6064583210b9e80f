// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Measures of the picture.
const (
	chartWide, chartHigh = 14 * vg.Centimeter, 9 * vg.Centimeter
	headHigh             = 1.6 * vg.Centimeter
	maxColumns           = 2
	logFrom              = 20 // the range from which an axis is logarithmic
)

// WriteSVG draws a report: for each thing measured fio's line beside ours, with the 90 %
// interval of the paired ratio as bars.
func WriteSVG(w io.Writer, r Report) error {
	all := charts(r.Rows)
	if len(all) == 0 {
		return errors.New("draw: there is no figure to draw")
	}
	columns := min(maxColumns, len(all))
	lines := (len(all) + columns - 1) / columns
	canvas := vgsvg.New(vg.Length(columns)*chartWide, vg.Length(lines)*chartHigh+headHigh)
	dc := draw.New(canvas)
	dc.FillPolygon(color.White, []vg.Point{{X: dc.Min.X, Y: dc.Min.Y}, {X: dc.Max.X, Y: dc.Min.Y}, {X: dc.Max.X, Y: dc.Max.Y}, {X: dc.Min.X, Y: dc.Max.Y}})
	head(dc, r)
	dc.Max.Y -= headHigh
	tiles := draw.Tiles{Rows: lines, Cols: columns, PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter, PadLeft: 3 * vg.Millimeter, PadRight: 3 * vg.Millimeter, PadBottom: 2 * vg.Millimeter}
	for i, c := range all {
		p, err := c.draw()
		if err != nil {
			return fmt.Errorf("draw %q: %w", c.title, err)
		}
		p.Draw(tiles.At(dc, i%columns, i/columns))
	}
	_, err := canvas.WriteTo(w)
	return err
}

// head says what the picture is of.
func head(dc draw.Canvas, r Report) {
	style := plot.New().Title.TextStyle
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	at := vg.Point{X: dc.Min.X + 4*vg.Millimeter, Y: dc.Max.Y - 3*vg.Millimeter}
	d := r.Device
	dc.FillText(style, at, fmt.Sprintf("%s on %s (%s, %s)", r.Tool, d.RealPath, d.Kind, Size(d.Size)))
	style.Font.Size = vg.Points(8)
	at.Y -= 5 * vg.Millimeter
	dc.FillText(style, at, fmt.Sprintf("version %s, Linux %s, %d CPUs, %s, %s; bars: 90 %% interval of the median of paired ratios", r.Version, r.Machine.Kernel, r.Machine.CPUs, r.Machine.Go, r.Machine.Fio))
}

// draw makes a plot of a chart.
func (c *chart) draw() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.NominalX(c.places...)
	p.X.Min, p.X.Max = -0.3, float64(len(c.places))-0.7
	p.Legend.Top, p.Legend.Left = true, true
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	p.Add(grid)
	low, high := math.Inf(1), 0.0
	ours := 0
	for _, l := range c.lines {
		style := draw.LineStyle{Width: vg.Points(1.5), Color: color.Gray{0x60}}
		if !l.theirs {
			style.Color = palette(ours)
			ours++
		}
		if l.dashed {
			style.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		if err := l.draw(p, style); err != nil {
			return nil, err
		}
		for i := range l.y {
			low, high = min(low, l.lo[i]), max(high, l.hi[i])
		}
	}
	p.Y.Min, p.Y.Max = 0, high*1.25 // room for the legend
	if high > low*logFrom {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min, p.Y.Max = low/2, high*5
	}
	return p, nil
}

func (l line) draw(p *plot.Plot, style draw.LineStyle) error {
	points := make(plotter.XYs, len(l.y))
	bars := make(plotter.YErrors, len(l.y))
	for i := range l.y {
		points[i] = plotter.XY{X: float64(l.at[i]), Y: l.y[i]}
		bars[i].Low, bars[i].High = max(0, l.y[i]-l.lo[i]), max(0, l.hi[i]-l.y[i])
	}
	path, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	path.LineStyle = style
	marks.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
	errs, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{points, bars})
	if err != nil {
		return err
	}
	errs.LineStyle.Color = style.Color
	p.Add(path, marks, errs)
	p.Legend.Add(l.name, path, marks)
	return nil
}

// palette returns colours that also the colour-blind tell apart (Okabe and Ito).
func palette(i int) color.Color {
	colours := []color.RGBA{{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}}
	return colours[i%len(colours)]
}
