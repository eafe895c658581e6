// Drafts: what the user has written and not published. They stay in this browser, so that
// neither a reload nor an expired token loses them, until the user publishes or discards
// them, or signs out.
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

const prefix = 'stint-draft:'

export function readDraft(of: string): Draft | null {
  try {
    return JSON.parse(localStorage.getItem(prefix + of) ?? 'null') as Draft | null
  } catch {
    return null
  }
}

// keepDraft returns false if the browser has no room for the draft.
export function keepDraft(of: string, draft: Draft): boolean {
  try {
    localStorage.setItem(prefix + of, JSON.stringify({ ...draft, saved: new Date().toISOString() }))
    return true
  } catch {
    return false
  }
}

export function forgetDraft(of: string): void {
  localStorage.removeItem(prefix + of)
}

export function drafts(): string[] {
  return Object.keys(localStorage).filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length))
}

export function forgetDrafts(): void {
  for (const of of drafts()) forgetDraft(of)
}
