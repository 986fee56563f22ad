import re,os,json,random
ROOT='/work/main'
tok=re.compile(r'//[^\n]*|/\*.*?\*/|`[^`]*`|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',re.S)
out=[]
for top in ('commands','orchestrator','cmd','tracing'):
    for d,ds,fs in os.walk(os.path.join(ROOT,top)):
        ds[:]=[x for x in ds if x not in('testdata','node_modules','vendor','orchestratortest','storetest','browsertest','torture')]
        for f in fs:
            if not f.endswith('.go') or f.endswith('_test.go'): continue
            p=os.path.join(d,f); s=open(p,encoding='utf8').read()
            lits=[]
            for m in tok.finditer(s):
                t=m.group(0)
                if t[0]=='"':
                    try: v=json.loads(t)
                    except Exception: v=t[1:-1].replace('\\n','\n').replace('\\"','"')
                    lits.append([m.start(),m.end(),v])
                elif t[0]=='`': lits.append([m.start(),m.end(),t[1:-1]])
            run=[]
            for l in lits:   # join "a" + "b"
                if run and re.fullmatch(r'\s*\+\s*',s[run[-1][1]:l[0]]): run[-1][1]=l[1]; run[-1][2]+=l[2]
                else: run.append(l)
            for a,b,v in run:
                flat=' '.join(v.split())
                if len(flat)<20: continue
                if len(re.findall(r"(?:^|\s)[A-Za-z'][a-z'’]*(?=[\s,.;:?!]|$)",flat))<3: continue   # prose: three plain words
                if re.search(r'\b(SELECT|INSERT|UPDATE|DELETE FROM|CREATE|PRAGMA|WHERE|ORDER BY|FROM|AND|JOIN|VALUES)\b',flat) and not re.search(r'[a-z] [a-z]+ [a-z]+ [a-z]+ [a-z]+ [a-z]+ ',flat): continue
                if re.match(r'\s*(json:|//|<|#!|package )',v): continue
                back=s[max(0,a-160):a]; line=s.count('\n',0,a)+1
                if re.search(r'(panic|regexp\.MustCompile|slog\.\w+|Exec\w*|Query\w*)\([^;{}]*$',back): continue
                if re.search(r'\b(const|var)\s+\w*(SQL|sql|query|schema)\w*\s*=\s*$',back): continue
                out.append((os.path.relpath(p,ROOT),line,flat))
out=sorted(set(out))
random.seed(20261130)
draw=sorted(random.sample(out,100))
print(len(out))
json.dump(draw,open('draw.json','w'))
json.dump(out,open('all.json','w'))
for x in draw: print('%s:%d\t%s'%x)
