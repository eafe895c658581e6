// What an editor does with its draft, and says about it.
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { forgetDraft, keepDraft, watchDraft, type Draft } from '../draft'

interface Kept {
  keep: (next: Draft) => void // keeps a draft, or forgets it if it changes nothing
  forget: () => void
  notes: ComponentChildren
}

// useKept keeps the draft of an editor that begins with one. Another tab that publishes or discards
// its own deletes that of this tab too: this tab keeps it again.
export function useKept(of: string, begin: () => Draft | null): Kept {
  const mine = useRef<Draft | null>(null)
  const [full, setFull] = useState(false)
  const [other, setOther] = useState<'edits' | 'ended'>()
  const store = (draft: Draft) => {
    mine.current = draft
    setFull(!keepDraft(of, draft))
  }
  const forget = () => {
    mine.current = null
    setFull(false)
    forgetDraft(of)
  }
  useEffect(() => {
    mine.current = begin()
    return watchDraft(of, (gone) => {
      if (gone && mine.current) store(mine.current)
      setOther(!gone ? 'edits' : mine.current ? 'ended' : undefined)
    })
  }, [of])
  return {
    keep: (next) => {
      if (next.files.some((f, i) => f.text !== next.base[i]?.text) || next.reason) store(next)
      else forget()
    },
    forget,
    notes: (
      <>
        {full && <NoDraft />}
        {other === 'edits' && <p class="box warn" role="alert">Another tab of this browser edits the same. The browser keeps the draft of the tab that was changed last: a reload would lose the other one, so close one of them.</p>}
        {other === 'ended' && <p class="box warn" role="alert">Another tab of this browser has published or discarded its draft of the same. The browser keeps the text of this tab now.</p>}
      </>
    ),
  }
}

// NoDraft says that the browser keeps no draft, and has it ask before it leaves the page: from the
// moment it says so, and not only after the next frame, which a hidden page may never draw.
function NoDraft() {
  useLayoutEffect(() => {
    const ask = (e: Event) => e.preventDefault()
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [])
  return <p class="box warn" role="alert">The browser keeps no draft, because its storage is full or forbidden: a reload would lose this text. To make room, discard other drafts in another window.</p>
}
