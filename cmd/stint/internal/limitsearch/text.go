package limitsearch

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/stintdev/stint"
)

// WriteText writes the report for people: what was read, the tables, and the
// suggested bucket as a rule.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	err := r.Reading.WriteText(w)
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "left out\t%d refunds and peeks\n", r.LeftOut)
	}
	if len(r.Windows) == 0 {
		return errors.Join(err, w.Flush())
	}
	r.writeBusiest(w)
	r.writePeaks(w)
	r.writeWindows(w)
	r.writeBuckets(w)
	err = errors.Join(err, w.Flush())
	if r.Suggested == nil {
		return err
	}
	_, err2 := fmt.Fprintf(out, "\nThe bucket that lets one caller do least within a minute, as a rule:\n\n%s", r.Suggested.Rule(r.By))
	return errors.Join(err, err2)
}

func (r *Report) writePeaks(w io.Writer) {
	fmt.Fprint(w, "\nmost by one caller in\tp50\tp90\tp99\tp99.9\tmax\n")
	for _, one := range r.Windows {
		p := one.Peaks
		fmt.Fprintf(w, "%s%s\t%d\t%d\t%d\t%d\t%d\n", one.Name, r.mark(&one), p.P50, p.P90, p.P99, p.P999, p.Max)
	}
	for _, one := range r.Windows {
		if r.mark(&one) != "" {
			fmt.Fprint(w, "* longer than the log: callers may use more within a whole one\n")
			return
		}
	}
}

// mark marks a window that is longer than the log.
func (r *Report) mark(w *Window) string {
	if w.Window.Microseconds() > r.LastUS-r.FirstUS {
		return " *"
	}
	return ""
}

func (r *Report) writeWindows(w io.Writer) {
	fmt.Fprintf(w, "\nleast limit that denies below %s\tlimit\tdenied\tshare\tcallers\tshare\n", percent(r.DenyBelow))
	for _, one := range r.Windows {
		one.FixedWindow.write(w, "fixed_window, "+one.Name, "none")
		one.SlidingWindowLog.write(w, "sliding_window_log, "+one.Name, fmt.Sprintf("over %d", stint.MaxLogLimit))
	}
}

func (f *Found) write(w io.Writer, name, none string) {
	if f == nil {
		fmt.Fprintf(w, "%s\t%s\t\t\t\t\n", name, none)
		return
	}
	fmt.Fprintf(w, "%s\t%d\t%s\n", name, f.Limit, f.cells())
}

func (d *Denial) cells() string {
	return fmt.Sprintf("%d\t%.2f %%\t%d\t%.2f %%", d.Denied, 100*d.ShareDenied, d.CallersDenied, 100*d.ShareCallers)
}

func (r *Report) writeBuckets(w io.Writer) {
	if len(r.Buckets) == 0 {
		fmt.Fprint(w, "\ntoken_bucket, by its rate\tnone\n")
		return
	}
	fmt.Fprint(w, "\ntoken_bucket, by its rate\tburst\tdenied\tshare\tcallers\tshare\n")
	for _, b := range r.Buckets {
		fmt.Fprintf(w, "%d a minute\t%d\t%s\n", b.Rate, b.Burst, b.cells())
	}
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 6, 64) + " %" }

// Rule returns the bucket as a rule of a rule file that counts by an attribute.
func (b *Bucket) Rule(by string) string {
	return fmt.Sprintf("  - id: suggested\n    by: [%s]\n    limit: %d\n    window: 1m\n    burst: %d\n", strconv.Quote(by), b.Rate, b.Burst)
}
