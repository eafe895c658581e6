// Numbers, times and durations as people read them.
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })

export function count(n: number): string {
  return whole.format(n)
}

export function many(n: number, one: string, several = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : several}`
}

export function number(n: number): string {
  return n >= 100 ? whole.format(n) : tenths.format(n)
}

export function rate(perSecond: number): string {
  if (perSecond > 0 && perSecond < 0.1) return '< 0.1/s'
  return `${number(perSecond)}/s`
}

export function share(part: number): string {
  const percent = 100 * part
  if (percent > 0 && percent < 0.1) return '< 0.1 %'
  return `${tenths.format(percent)} %`
}

// duration is approximate: it has the two largest units.
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)} ms`
  const units: [string, number][] = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]]
  let rest = ms < 10_000 ? Math.round(ms / 100) / 10 : Math.round(ms / 1000)
  if (rest < 10) return `${rest} s`
  const parts: string[] = []
  for (const [name, size] of units) {
    const n = Math.floor(rest / size)
    if (n > 0) parts.push(`${n} ${name}`)
    rest -= n * size
    if (parts.length === 2 || (parts.length === 1 && n === 0)) break
  }
  return parts.join(' ')
}

// milliseconds returns the length of a duration such as 90m or 1h30m, or 0 for another text.
export function milliseconds(text: string): number {
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)) return 0
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
  return [...text.matchAll(/([\d.]+)([a-z]+)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * units[unit!]!, 0)
}

// perUnit says a limit such as 10/s in words.
export function perUnit(limit: string): string {
  const [, n, unit] = /^(\d+)\/([smhd])$/.exec(limit) ?? []
  const names: Record<string, string> = { s: 'a second', m: 'a minute', h: 'an hour', d: 'a day' }
  return n ? `${many(Number(n), 'request')} ${names[unit!]}` : limit
}

// attribute returns the name of an attribute of requests as people call it.
export function attribute(name: string): string {
  return name === 'api_key' ? 'API key' : name === 'ip' ? 'address' : name.replace(':', ' ')
}

export function bytes(n: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let i = 0
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024
  return `${tenths.format(n)} ${units[i]}`
}

const local = new Intl.DateTimeFormat('en-GB', {
  year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
})

export function localTime(when: Date): string {
  const part = Object.fromEntries(local.formatToParts(when).map((p) => [p.type, p.value]))
  return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second} ${part.timeZoneName}`
}

// zone is the name of the local time.
export function zone(when = new Date()): string {
  return local.formatToParts(when).find((p) => p.type === 'timeZoneName')?.value ?? ''
}

export function utcTime(when: Date): string {
  return `${when.toISOString().replace('T', ' ').slice(0, 19)} UTC`
}

export function ago(when: Date, now = new Date()): string {
  const ms = now.getTime() - when.getTime()
  return ms < 1000 ? 'now' : `${duration(Math.floor(ms / 1000) * 1000)} ago`
}
