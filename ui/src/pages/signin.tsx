import { useEffect, useRef, useState } from 'preact/hooks'
import { forgetDrafts, drafts } from '../draft'
import type { Question } from '../session'
import { identity, signOut } from '../session'
import { useStore } from '../store'

// SignIn asks for the token over the open page, whose state stays.
export function SignIn({ question }: { question: Question }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [token, setToken] = useState('')
  const first = useStore(identity) === null
  useEffect(() => {
    if (!dialog.current?.open) dialog.current?.showModal()
  }, [])
  const submit = (e: Event) => {
    e.preventDefault()
    if (token.trim()) question.answer(token.trim())
  }
  // A browser closes a dialog on the second Escape, although the first one was refused.
  return (
    <dialog ref={dialog} class={first ? 'first' : ''} aria-labelledby="sign-in-title" onCancel={(e) => e.preventDefault()} onClose={() => dialog.current?.showModal()}>
      <form onSubmit={submit}>
        <h1 id="sign-in-title">{first ? 'Sign in to Stint' : 'Sign in again'}</h1>
        {question.again && <p class="box bad" role="alert">The server refused the token. {first ? 'Give the token itself, not the hash that the file of tokens has.' : 'What you have written is still here: with another token the page goes on.'}</p>}
        <label class="field">
          <span class="label">Admin token</span>
          <input type="password" name="token" autocomplete="off" spellcheck={false} required autofocus value={token} onInput={(e) => setToken(e.currentTarget.value)} />
          <span class="hint">It stays in the memory of this page: no cookie, no storage. A reload asks again.</span>
        </label>
        <div class="actions">
          <button type="submit" class="primary">Sign in</button>
          {question.again && drafts().length > 0 && <button type="button" onClick={() => { forgetDrafts(); signOut() }}>Delete drafts and leave</button>}
        </div>
      </form>
    </dialog>
  )
}
