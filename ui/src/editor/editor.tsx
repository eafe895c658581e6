import { useEffect, useRef, useState } from 'preact/hooks'
import type { Problem } from '../api'
import { Failure, Loading } from '../parts/basic'
import type { Editor } from './codemirror'

// YamlEditor shows a text in the editor. A changed document opens another editor, whose
// text begins anew.
export function YamlEditor({ document, label, text, other, problems, spot, changed }: {
  document: string
  label: string
  text: string
  other?: string | undefined
  problems: Problem[]
  spot?: Problem | undefined // each new one moves the cursor to its line
  changed: (text: string) => void
}) {
  const host = useRef<HTMLDivElement>(null)
  const [editor, setEditor] = useState<Editor>()
  const [error, setError] = useState<Error>()
  const latest = useRef(changed)
  latest.current = changed
  useEffect(() => {
    let opened: Editor | undefined
    let closed = false
    import('./codemirror').then(({ open }) => {
      if (closed || !host.current) return
      opened = open(host.current, { label, text, ...(other === undefined ? {} : { other }), changed: (t) => latest.current(t) })
      setEditor(opened)
    }, setError)
    return () => {
      closed = true
      opened?.destroy()
      setEditor(undefined)
    }
  }, [document])
  useEffect(() => editor?.problems(problems), [editor, problems])
  useEffect(() => { if (spot?.line) editor?.line(spot.line) }, [editor, spot])
  return (
    <>
      {error && <Failure what="The editor was not loaded, and your text is kept" error={error} />}
      {!editor && !error && <Loading />}
      <div ref={host} class="editor" />
    </>
  )
}
