// A chart over time. Its colours are those of classes of the style sheet.
import { useEffect, useRef, useState } from 'preact/hooks'
import { localTime, number, utcTime, zone } from '../format'
import { useStore } from '../store'
import { theme } from '../theme'
import { Failure } from './basic'
import type { Plot } from './plot'

export interface Series {
  title: string
  colour: string // a class
  values: (number | null)[] // null: a gap
}

// Chart draws one line for each series. times are seconds since the epoch. With span it shows
// the last seconds of that number, and all of them without.
export function Chart({ label, unit, times, series, span = 0 }: { label: string; unit: string; times: number[]; series: Series[]; span?: number }) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<Plot>(null)
  const [error, setError] = useState<Error>()
  const [pointed, point] = useState<number | null>(null)
  const chosen = useStore(theme)
  const titles = series.map((s) => s.title).join()
  const latest = useRef({ times, series })
  latest.current = { times, series }
  useEffect(() => {
    const element = host.current!
    let closed = false
    const draw = () => {
      import('./plot').then((chunk) => {
        if (closed) return
        plot.current?.destroy()
        const now = latest.current
        plot.current = chunk.draw(element, { unit, series: now.series, span, pointed: point }, now.times, now.series.map((s) => s.values))
      }, setError)
    }
    draw()
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', draw)
    const resized = new ResizeObserver(() => plot.current?.resize())
    resized.observe(element)
    return () => {
      closed = true
      dark.removeEventListener('change', draw)
      resized.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [titles, chosen, unit])
  useEffect(() => plot.current?.show(times, series.map((s) => s.values)), [times, series])
  return (
    <figure class="chart">
      <figcaption>
        <span class="unseen">{label}</span>
        {series.map((s) => <span key={s.title} class="legend"><span class={`swatch ${s.colour}`} aria-hidden="true" />{s.title}</span>)}
        <span class="quiet">{unit}, {zone()}</span>
      </figcaption>
      {error && <Failure what="The chart was not loaded" error={error} />}
      <div class="plot-box">
        <div ref={host} class="plot" role="img" aria-label={`${label}: the table has the numbers`} />
        {pointed !== null && times[pointed] !== undefined && <Reading at={times[pointed]} unit={unit} series={series} index={pointed} />}
      </div>
    </figure>
  )
}

// Reading says what the chart has under the pointer.
function Reading({ at, unit, series, index }: { at: number; unit: string; series: Series[]; index: number }) {
  const when = new Date(at * 1000)
  const values = series.flatMap((s) => (s.values[index] == null ? [] : [`${s.title} ${number(s.values[index])}`]))
  return <div class="reading" aria-hidden="true">{localTime(when)} ({utcTime(when).slice(11)}): {values.join(', ') || 'not known'} {values.length > 0 && unit}</div>
}
