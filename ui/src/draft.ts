// Drafts: what the user has written and not published. They stay in this browser, so that
// neither a reload nor an expired token loses them, until the user publishes or discards
// them, or signs out.
import { storage } from './storage'

export interface File {
  name: string
  text: string
}

export interface Draft {
  base: File[] // what the server had when the draft began
  etag: string
  files: File[]
  reason: string
  saved: string
}

// The drafts for servers below other prefixes of one host are in the same storage.
const prefix = `stint-draft:${new URL('.', document.baseURI).pathname}:`

export function readDraft(of: string): Draft | null {
  try {
    const draft = JSON.parse(storage()?.getItem(prefix + of) ?? 'null') as Draft | null
    return draft?.files?.length ? draft : null
  } catch {
    return null
  }
}

// keepDraft returns false if the browser has no room for the draft.
export function keepDraft(of: string, draft: Draft): boolean {
  const room = storage()
  try {
    room?.setItem(prefix + of, JSON.stringify({ ...draft, saved: new Date().toISOString() }))
    return room !== undefined
  } catch {
    return false
  }
}

// watchDraft calls another when another tab of this browser keeps a draft of the same name, and with
// gone when it deletes it.
export function watchDraft(of: string, another: (gone: boolean) => void): () => void {
  const told = (e: StorageEvent) => { if (e.key === prefix + of) another(e.newValue === null) }
  addEventListener('storage', told)
  return () => removeEventListener('storage', told)
}

export function forgetDraft(of: string): void {
  storage()?.removeItem(prefix + of)
}

export function drafts(): string[] {
  return Object.keys(storage() ?? {}).filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length))
}

export function forgetDrafts(): void {
  for (const of of drafts()) forgetDraft(of)
}
