// A chart over time. Its colours are those of classes of the style sheet.
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { useStore } from '../store'
import { theme } from '../theme'

export interface Series {
  title: string
  colour: string // a class
  values: number[]
}

// Chart draws one line for each series. times are seconds since the epoch. With span it shows
// the last seconds of that number, and all of them without.
export function Chart({ label, unit, times, series, height = 220, span = 0 }: { label: string; unit: string; times: number[]; series: Series[]; height?: number; span?: number }) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const chosen = useStore(theme)
  const titles = series.map((s) => s.title).join()
  const data: uPlot.AlignedData = [times, ...series.map((s) => s.values)]
  useEffect(() => {
    const element = host.current!
    const draw = () => {
      plot.current?.destroy()
      plot.current = new uPlot(options(element, unit, series, height, span), data, element)
    }
    draw()
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', draw)
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }))
    resized.observe(element)
    return () => {
      dark.removeEventListener('change', draw)
      resized.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [titles, chosen, unit])
  useEffect(() => plot.current?.setData(data), [times, series])
  return (
    <figure class="chart">
      <figcaption>
        <span class="unseen">{label}</span>
        {series.map((s) => <span key={s.title} class="legend"><span class={`swatch ${s.colour}`} aria-hidden="true" />{s.title}</span>)}
        <span class="quiet">{unit}</span>
      </figcaption>
      <div ref={host} role="img" aria-label={`${label}: the table has the numbers`} />
    </figure>
  )
}

function options(host: HTMLElement, unit: string, series: Series[], height: number, span: number): uPlot.Options {
  const axis = { stroke: colourOf(host, 'quiet'), grid: { stroke: colourOf(host, 'grid'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' }
  return {
    width: host.clientWidth || 300,
    height,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { range: (_, min, max) => [span ? max - span : min, max] }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
    axes: [
      { ...axis, size: 30, incrs: [1, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400], space: 70, values: (_, times) => times.map(clock) },
      { ...axis, size: 56, values: (_, values) => values.map((v) => (v >= 1000 ? `${v / 1000}k` : String(v))) },
    ],
    series: [{}, ...series.map((s) => ({ label: `${s.title} ${unit}`, stroke: colourOf(host, s.colour), width: 1.5, points: { show: false } }))],
  }
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString('en-GB')
}

// colourOf returns the colour of a class, which depends on the theme.
function colourOf(host: HTMLElement, name: string): string {
  const probe = document.createElement('span')
  probe.className = name
  host.append(probe)
  const colour = getComputedStyle(probe).color
  probe.remove()
  return colour
}
