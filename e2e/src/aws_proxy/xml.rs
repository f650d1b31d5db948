//! A small tree of XML elements: AWS's answers in the Query protocol have elements and text, never both mixed.

use quick_xml::events::{BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};

/// One element with its text or its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The tag name, as written.
    pub name: String,
    /// The attributes as they stand in the source, with the blank before them.
    attributes: String,
    /// The text, entities resolved. Empty where the element has children.
    pub text: String,
    /// The children in document order.
    pub children: Vec<Self>,
}

/// The reasons for which a text is not a tree of elements.
#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    /// The text is not well formed.
    #[error("XML is malformed: {0}")]
    Malformed(#[from] quick_xml::Error),
    /// The tree could not be written.
    #[error("writing XML: {0}")]
    Write(#[from] std::io::Error),
    /// The text ends before its root element ends, or has no root element.
    #[error("XML has no complete root element")]
    Incomplete,
}

impl Element {
    /// An element that holds a text.
    pub fn text(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), ..Self::default() }
    }

    /// An element that holds other elements.
    pub fn parent(name: &str, children: Vec<Self>) -> Self {
        Self { name: name.to_owned(), children, ..Self::default() }
    }

    /// Reads the root element of `source`.
    pub fn parse(source: &str) -> Result<Self, XmlError> {
        let mut reader = Reader::from_str(source);
        let mut open: Vec<Self> = Vec::new();
        loop {
            match reader.read_event()? {
                Event::Start(start) => open.push(Self::opened(&start)),
                Event::Empty(start) => {
                    let element = Self::opened(&start);
                    match open.last_mut() {
                        Some(parent) => parent.children.push(element),
                        None => return Ok(element),
                    }
                }
                Event::End(_) => {
                    let mut element = open.pop().ok_or(XmlError::Incomplete)?;
                    if !element.children.is_empty() {
                        element.text.clear(); // indentation
                    }
                    match open.last_mut() {
                        Some(parent) => parent.children.push(element),
                        None => return Ok(element),
                    }
                }
                Event::Text(text) => push_text(&mut open, &text),
                Event::CData(text) => push_text(&mut open, &text),
                Event::GeneralRef(reference) => match reference.resolve_char_ref()? {
                    Some(character) => push_text(&mut open, character.encode_utf8(&mut [0; 4])),
                    None => push_text(
                        &mut open,
                        quick_xml::escape::resolve_predefined_entity(&reference).unwrap_or_default(),
                    ),
                },
                Event::Eof => return Err(XmlError::Incomplete),
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
    }

    fn opened(start: &BytesStart<'_>) -> Self {
        Self {
            name: start.name().as_ref().to_owned(),
            attributes: start.attributes_raw().to_owned(),
            ..Self::default()
        }
    }

    /// The document with this element as its root.
    pub fn write(&self) -> Result<Vec<u8>, XmlError> {
        let mut writer = Writer::new(b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n".to_vec());
        self.write_into(&mut writer)?;
        Ok(writer.into_inner())
    }

    fn write_into(&self, writer: &mut Writer<Vec<u8>>) -> Result<(), XmlError> {
        let start = BytesStart::from_content(format!("{}{}", self.name, self.attributes), self.name.len());
        if self.children.is_empty() && self.text.is_empty() {
            writer.write_event(Event::Empty(start))?;
            return Ok(());
        }
        let end = start.to_end().into_owned();
        writer.write_event(Event::Start(start))?;
        if self.children.is_empty() {
            writer.write_event(Event::Text(BytesText::new(&self.text)))?;
        }
        for child in &self.children {
            child.write_into(writer)?;
        }
        writer.write_event(Event::End(end))?;
        Ok(())
    }

    /// The first child of this name.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The first child of this name, to change it.
    pub fn child_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.children.iter_mut().find(|child| child.name == name)
    }

    /// Replaces the first child with the same name, or appends the child.
    pub fn set(&mut self, child: Self) {
        match self.child_mut(&child.name) {
            Some(found) => *found = child,
            None => self.children.push(child),
        }
    }

    /// The text at the end of a path of children; empty where there is none.
    pub fn text_at(&self, path: &[&str]) -> &str {
        path.iter().try_fold(self, |element, name| element.child(name)).map_or("", |element| &element.text)
    }

    /// The first element of this name at any depth, this one included.
    pub fn find(&self, name: &str) -> Option<&Self> {
        if self.name == name {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(name))
    }
}

fn push_text(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_xml_is_written_unchanged() {
        let source = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
            <R xmlns=\"http://x/\"><a>1 &lt; 2 &amp; 3</a><b/><c><item>x</item><item>y</item></c></R>";
        let tree = Element::parse(source).unwrap();
        assert_eq!(tree.text_at(&["a"]), "1 < 2 & 3");
        assert_eq!(String::from_utf8(tree.write().unwrap()).unwrap(), source);
    }

    #[test]
    fn indentation_and_character_references_are_understood() {
        let tree = Element::parse("<R>\n  <a>&#65;&#x42;</a>\n</R>").unwrap();
        assert_eq!(tree.text_at(&["a"]), "AB");
        assert_eq!(tree.text, "");
    }
}
