# sentences read: prose sentences outside code blocks; a table cell with three words or more counts as one per sentence; a comment line in a block counts as one; headings and captions with 3+ words count as one.
import re,glob
tot=0
for f in ['README.md','docs_README.md','docs_audits.md','docs_cli.md','docs_folders.md','docs_go.md','docs_guarantees.md','docs_phone.md','docs_threat-model.md','docs_vocabularies.md']:
    s=open('pages/'+f,'rb').read()[:25600].decode('utf8','ignore')
    n=0; para=[]; block=False
    def flush():
        global n,para
        t=' '.join(para); para=[]
        if not t: return 0
        t=re.sub(r'`[^`]*`','CODE',t); t=re.sub(r'\[([^\]]*)\]\([^)]*\)',r'\1',t)
        return len([x for x in re.split(r'(?<=[.!?:])["”)*]*\s+(?=[A-Z*])',t) if len(x.split())>=3])
    for line in s.split('\n'):
        if line.startswith('```'): n+=flush(); block=not block; continue
        if block:
            if re.search(r'(//|\s#) \w+ \w+ \w+',line) and not re.search(r'Output',line): n+=1
            continue
        if line.startswith('|'):
            n+=flush()
            for c in line.strip('|').split('|'):
                c=re.sub(r'`[^`]*`','CODE',c)
                if 'Test' in c and c.count('Test')>=max(1,len(c.split())-3): continue
                if len(c.split())>=3 and not set(c)<=set('- '): n+=len(re.split(r'(?<=[.!?;])\s+',c.strip()))
            continue
        if line.startswith('<!--') or line.startswith('-->'): continue
        if line.startswith('#'):
            n+=flush(); n+= len(line.split())>3; continue
        if not line.strip(): n+=flush(); continue
        if re.match(r'\s*([-*]|\d\.) ',line): n+=flush()
        para.append(line.strip())
    n+=flush(); tot+=n
    print(f,n)
print(tot)
