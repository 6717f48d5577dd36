package registry

// orders are ways in which a text speaks to the model instead of about the tool.
// They are matched in [legible] text. Honest descriptions give orders too; that is
// why this is a hint.
var orders = patterns(
	`\b(ignore|disregard|forget|override|bypass)\b[^.]{0,40}\b(previous|prior|earlier|above|all|other|any|your|system|safety)\b[^.]{0,40}\b(instruction|prompt|rule|message|direction|guideline|polic|context|restriction|guardrail)`,
	`\b(do not|don't|never|must not|without|avoid|no need to)\b[^.]{0,30}\b(tell|telling|mention|mentioning|inform|informing|notify|notifying|show|showing|reveal|revealing|disclose|disclosing|alert|alerting|ask|asking|report|reporting)\b[^.]{0,30}\b(user|human|person|operator|anyone|anybody|them|permission|confirmation|it)\b`,
	`\b(before|after|prior to|when(ever)?|every time|each time)\b[^.]{0,20}\b(us(e|ing)|call(ing)?|invok(e|ing)|run(ning)?|execut(e|ing))\b[^.]{0,30}\b(this|any|other|another|the|a)\b[^.]{0,15}\b(tool|function)s?\b[^.]{0,60}\b(must|first|always|read|send|call|need|should|pass|include|fetch|provide)`,
	`\b(first|always|must)\b[^.]{0,30}\b(call|use|invoke|run|read|send|open|fetch|execute)\b[^.]{0,60}\b(before|prior to|and (then )?(pass|send|include|put|attach|append))\b`,
	`</?\s*(important|system|hidden|instructions?|critical|assistant|tool_?use|thinking)\b[^>]{0,40}>`,
	`\[/?(system|inst|important|instructions?)\]|<\|(im_start|im_end|system|endoftext)`,
	`\b(system|developer)\s*(prompt|message|instruction|note|override)s?\b`,
	`\byou are now\b|\byou (must|have to|shall|are required to|should) (always|never|first|not|also|call|use|read|send|include|ignore|comply|obey|follow|keep|hide|append|run|execute|invoke|copy|forward)\b`,
	`(^|[.!:;,]\s)(please )?(act|behave|pretend|respond) as (if|though|a|an|the)\b`,
	`\b(secretly|silently|covertly|quietly|behind the scenes|without (the )?(user|human)('s)? (knowledge|consent|knowing|noticing|awareness))\b`,
	`\b(this|these) (instruction|step|note|rule|order|directive)s? (is|are|take|takes|have|has|override|overrides|supersede|supersedes)\b`,
	`\b(new|updated|real|actual|additional) (instruction|directive|task|goal|objective)s?\b\s*[:!]`,
	`\b(instead of|rather than|in place of|replaces|supersedes)\b[^.]{0,40}\b(tool|function|server)s?\b`,
	`\b(do not|don't|never|stop) us(e|ing)\b[^.]{0,20}\b(other|any|another|original|native|built-in)\b[^.]{0,20}\b(tool|function|server)`,
	`\b(note|message|instructions?|attention)\b[^.]{0,15}\b(to|for)\b[^.]{0,10}\b(the )?(model|llm|ai|assistant|agent|claude|gpt|chatgpt|copilot|gemini)s?\b`,
	`\b(exfiltrate|leak|forward|bcc|upload|transmit|post|send|pass|include|attach)\b[^.]{0,60}\b(conversation|chat history|context window|credential|secret|token|password|contents? of)s?\b`,
	`\b(user|human|person|operator)s? (need|must|should|do|does|will|can)( not|n't|not) (know|see|notice|be (told|asked|informed|notified|shown))\b`,
	`\b(curl|wget|iwr)\b[^|]{0,80}\|\s*(ba|z)?sh\b|\bbase64 (-d|--decode)\b|\brm -rf\b`,
	`\b(all|every|any) (messages?|e-?mails?|requests?|calls?|payments?|transactions?|outputs?)\b[^.]{0,40}\b(must|should|shall|has to|have to|need to|needs to)\b[^.]{0,20}\b(be|go|to)\b`,
)

// secretWords name what a tool seldom has a reason to speak of: where secrets
// lie, always; secrets in general, where the text has somebody handle them.
var secretWords = patterns(
	`(~|\$home|/root|/home/[a-z_]+|/users/[a-z_]+|%userprofile%)[/\\]\.?(ssh|aws|config|kube|gnupg|netrc|npmrc|docker|cursor|gitconfig|bash_history|zsh_history)`,
	`\bid_(rsa|ed25519|ecdsa|dsa)\b|\bauthorized_keys\b|\bknown_hosts\b`,
	`\b(ssh|private|signing|gpg|pgp|api)[ _-]?keys?\b`,
	"(^|[\\s\"'`(/])\\.(env|netrc|npmrc|pypirc|pgpass|git-credentials)\\b",
	`/etc/(passwd|shadow|sudoers)|/proc/self/environ|\bmcp\.json\b|\bclaude_desktop_config\b`,
	`\bprocess\.env\b|\bos\.environ\b|\baws_(secret|access|session)\w*|\b\w+_(api_key|secret|token|password)\b`,
	`\b(seed|recovery|mnemonic) phrase\b|\bkeychain\b|\bkeyring\b`,
	`\b(read|get|include|pass|send|attach|upload|fetch|retrieve|extract|collect|copy|dump|print|list|return|reveal|paste|find|contents?)(s|ing|ed)?\b[^.]{0,40}\b(passwords?|passphrases?|credentials?|secrets?|cookies?|(access|auth|bearer|refresh|session|oauth|personal access|security|github) (tokens?|keys?)|env(ironment)? ?var(iable)?s?)\b`,
)
