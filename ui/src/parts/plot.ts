// The drawing of a chart. It is a chunk of its own, with the library that draws, and is loaded
// when a page shows a chart.
import uPlot from 'uplot'
import type { Series } from './chart'

export interface Settings {
  unit: string
  series: Series[]
  span: number
  pointed: (index: number | null) => void // the point under the pointer
}

export interface Plot {
  show: (times: number[], values: (number | null)[][]) => void
  resize: () => void
  destroy: () => void
}

// draw draws a chart in an element.
export function draw(host: HTMLElement, settings: Settings, times: number[], values: (number | null)[][]): Plot {
  const plot = new uPlot(options(host, settings), [times, ...values], host)
  return {
    show: (at, now) => plot.setData([at, ...now]),
    resize: () => plot.setSize({ width: host.clientWidth, height: host.clientHeight }),
    destroy: () => plot.destroy(),
  }
}

function options(host: HTMLElement, { unit, series, span, pointed }: Settings): uPlot.Options {
  const axis = { stroke: colourOf(host, 'quiet'), grid: { stroke: colourOf(host, 'grid'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' }
  return {
    width: host.clientWidth || 300,
    height: host.clientHeight,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    hooks: { setCursor: [(plot) => pointed(plot.cursor.idx ?? null)] },
    scales: { x: { range: times(span) }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
    axes: [
      { ...axis, size: 30, incrs: [1, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, ...[1, 2, 7, 14, 28, 91, 182, 364].map((days) => 86400 * days)], space: (_, __, min, max) => (sameDay(min, max) ? 70 : 100), values: (plot, times) => times.map(sameDay(plot.scales.x!.min!, plot.scales.x!.max!) ? clock : dayAndClock) },
      { ...axis, size: 56, values: (_, values) => values.map((v) => (v >= 1000 ? `${v / 1000}k` : String(v))) },
    ],
    series: [{}, ...series.map((s) => ({ label: `${s.title} ${unit}`, stroke: colourOf(host, s.colour), width: 1.5, points: { show: false } }))],
  }
}

// times returns the range of the times that a chart shows. Without data it ends now.
function times(span: number) {
  return (_: uPlot, min: number | null, max: number | null): [number, number] => {
    const end = max ?? Date.now() / 1000
    return [span ? end - span : min ?? end - 1, end]
  }
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString('en-GB')
}

function sameDay(from: number, to: number): boolean {
  return new Date(from * 1000).toDateString() === new Date(to * 1000).toDateString()
}

function dayAndClock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString('sv-SE').slice(5, 16) // 03-31 14:00: that locale writes as ISO 8601 does
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
