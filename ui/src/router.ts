// The address of a page is the part of the URL after #: no server sees it. It never contains
// a key or a token.
import { useEffect, useMemo, useState } from 'preact/hooks'

export interface Route {
  path: string[]
  query: URLSearchParams
}

export function parse(hash: string): Route {
  const [, path = '', query = ''] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? []
  return { path: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(query) }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export function href(path: string[], query: Record<string, string | number | undefined> = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  const text = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString()
  return `#/${path.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`
}

export function go(path: string[], query: Record<string, string | number | undefined> = {}): void {
  location.hash = href(path, query)
}

// amend changes parts of the query without a new entry in the history of the browser.
export function amend(changes: Record<string, string | undefined>): void {
  const { path, query } = parse(location.hash)
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value)
    else query.delete(name)
  }
  history.replaceState(null, '', href(path, Object.fromEntries(query)))
  dispatchEvent(new HashChangeEvent('hashchange'))
}

export function useRoute(): Route {
  const [hash, set] = useState(location.hash)
  useEffect(() => {
    const changed = () => set(location.hash)
    addEventListener('hashchange', changed)
    changed() // a click may have changed it since the component was shown
    return () => removeEventListener('hashchange', changed)
  }, [])
  return useMemo(() => parse(hash), [hash])
}
