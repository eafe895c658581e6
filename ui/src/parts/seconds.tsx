// A chart of the seconds that the live view has.
import { useMemo } from 'preact/hooks'
import { countsOf, type Rate, type Second } from '../live'
import { Chart } from './chart'

export const counted = ['allowed', 'denied', 'shadow', 'degraded'] as const

// SecondsChart is the chart of one rule, or of all with an empty id.
export function SecondsChart({ seconds, rule }: { seconds: Second[]; rule: string }) {
  const { times, series } = useMemo(() => {
    const counts = seconds.map((s) => countsOf(s, rule))
    const of = (name: keyof Rate) => counts.map((c, i) => (1000 * c[name]) / seconds[i]!.length_ms)
    return {
      times: seconds.map((s) => s.time_ms / 1000),
      series: counted.map((name) => ({ title: name, colour: `series-${name}`, values: of(name) })),
    }
  }, [seconds, rule])
  return <Chart label={`Requests a second of ${rule || 'all rules'}`} unit="a second" times={times} series={series} span={900} />
}
